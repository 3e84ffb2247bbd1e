"""Clients of every interface against several instances that are killed, stopped and restarted: no write is lost, doubled or seen too late, and followers that
move from instance to instance are sent everything once.

What is done is counted, not timed: each fault once, after so many calls that were answered. By hand, for as long as wanted:
`python -m fuzz.consistency --seconds 3600`, whose documentation says what is checked.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from fuzz.consistency.run import Plan, Run
from tests.support.crash import SEED

pytestmark = pytest.mark.programs

FAULTS = "kill_instance", "pause_instance", "restart", "kill_parent", "change_schema", "kill_in_deploy"
"""Of one parent's instances. Separate servers share the data as these do; of them the two first are tried."""


@pytest.mark.parametrize("separate", [False, True], ids=["instances", "separate servers"])
def test_histories_can_be_explained(tmp_path: Path, separate: bool) -> None:
    faults = FAULTS[:2] if separate else FAULTS
    result = Run(Plan(SEED, separate=separate, faults=faults, between=100), tmp_path).run()
    assert not result.problems, "\n".join([f"SVC_CRASH_SEED={SEED}, {tmp_path}", *result.problems])
    assert result.done == dict.fromkeys(faults, 1)
    assert result.acknowledged.keys() >= {"rest", "graphql", "sql", "operations", "code", "mqtt"}
    assert result.events and result.moves
