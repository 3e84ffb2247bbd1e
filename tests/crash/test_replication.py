"""Clients of three nodes that replicate, whose engines and networks fail and which are killed: nothing is lost, doubled or merged otherwise than by the rules.

What is done is counted, not timed: each fault once, after so many calls that were answered. By hand, for as long as wanted:
`python -m fuzz.replication --seconds 600`, whose documentation says what is checked.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from fuzz.replication.run import Plan, Run
from tests.support.crash import SEED

pytestmark = pytest.mark.programs

FAULTS = "kill_node", "kill_engine", "cut_off", "cut_silently", "add_attribute", "make_table", "clock_ahead"


def test_nodes_become_equal(tmp_path: Path) -> None:
    result = Run(Plan(SEED, faults=FAULTS, between=150), tmp_path).run()
    assert not result.problems, "\n".join([f"SVC_CRASH_SEED={SEED}, {tmp_path}", *result.problems])
    assert result.done == dict.fromkeys(FAULTS, 1)
    assert result.writes and result.messages
