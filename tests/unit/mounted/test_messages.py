"""Checks of the messages of an application."""

from __future__ import annotations

from itertools import pairwise

from svc.mounted.messages import ClientDisconnected, body_of, is_of_disconnection, pairs_of


def test_bodies_of_other_types_are_bytes() -> None:
    for value in (b"ab", bytearray(b"ab"), memoryview(b"ab")):
        assert body_of({"type": "t", "body": value}) == (b"ab", False)
    assert body_of({"type": "t", "more_body": 1}) == (b"", True)


def test_fields_may_come_from_any_iterable() -> None:
    assert pairs_of({"type": "t", "headers": iter([[b"a", b"\xe9"], (bytearray(b"b"), b"\t c ")])}) == [("a", "é"), ("b", "c")]
    assert pairs_of({"type": "t", "headers": None}) == [] == pairs_of({"type": "t"})


def chained(*errors: BaseException) -> BaseException:
    for outer, inner in pairwise(errors):
        outer.__context__ = inner
    return errors[0]


def test_which_errors_come_from_a_client_that_is_gone() -> None:
    assert is_of_disconnection(ClientDisconnected())
    assert is_of_disconnection(chained(KeyError(), ValueError(), ClientDisconnected()))
    assert is_of_disconnection(ExceptionGroup("", [ClientDisconnected(), chained(KeyError(), ClientDisconnected())]))
    assert not is_of_disconnection(OSError())
    assert not is_of_disconnection(ExceptionGroup("", [ClientDisconnected(), KeyError()]))


def test_a_circle_of_errors_ends() -> None:
    first, second = KeyError(), ValueError()
    first.__context__, second.__context__ = second, first
    assert not is_of_disconnection(first)
