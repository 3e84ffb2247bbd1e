"""svc.realtime.resume: event ids that clients send, and what subscriptions begin with that name one."""

from __future__ import annotations

import pytest

from svc.realtime.resume import parse_event_id


@pytest.mark.parametrize("text", ["", " ", "x", "-1", "1x", "0x10", "1e5", "NaN", "1.x", ".5", "1.-5", "٣", "9" * 30])
def test_invalid_event_ids(text: str) -> None:
    assert parse_event_id(text) is None


@pytest.mark.parametrize(("text", "position"), [("0", 0), ("12", 12), (" 12 ", 12), ("12.", 12), ("1767225600123.31", 1767225600123)])
def test_event_ids_are_log_positions(text: str, position: int) -> None:
    assert parse_event_id(text) == position
