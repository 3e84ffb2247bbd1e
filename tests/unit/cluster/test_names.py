"""svc.cluster.names: every name has a token of its own, which leads back to it; what the engine could not take is refused."""

from __future__ import annotations

import re

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from svc.cluster.names import MAX_STREAM_NAME, name_of, stream_name, stream_owner, subject, subject_names, token

names = st.text(st.characters(codec="utf-8"), min_size=1, max_size=20) | st.text("aA0-_. *>/\\", min_size=1, max_size=20)
NAME_OF_ENGINE = re.compile(r"[A-Za-z0-9_-]{1,255}")


@given(names, names)
@example("a", "_61")
@example("A", "a")
def test_tokens_lead_back_and_differ(one: str, other: str) -> None:
    assert NAME_OF_ENGINE.fullmatch(token(one)) and "__" not in token(one)
    assert name_of(token(one)) == one
    assert (token(one) == token(other)) == (one == other)


@given(names, names)
@example("a_", "_b")
@example("a__b", "c")
def test_streams_and_subjects_lead_back(database: str, node: str) -> None:
    try:
        stream = stream_name(database, node)
    except ValueError:
        assert len(token(database)) + len(token(node)) > MAX_STREAM_NAME - 5
        return
    assert NAME_OF_ENGINE.fullmatch(stream)
    assert stream_owner(stream) == (database, node)
    assert subject_names("log", subject("log", database, node)) == (database, node)
    assert subject_names("lo", subject("log", database, node)) is None


@given(st.text(st.characters(), max_size=20) | st.text("L_0aA.f", max_size=12).map("L__".__add__))
def test_whatever_leads_to_names_is_made_of_them(found: str) -> None:
    owner = stream_owner(found)
    assert owner is None or stream_name(*owner) == found
    names = subject_names("log", f"svc.log.{found}")
    assert names is None or subject("log", *names) == f"svc.log.{found}"
    try:
        name = name_of(found)
    except ValueError:
        return
    assert token(name) == found


def test_the_longest_stream_name_is_that_of_the_engine() -> None:
    assert len(stream_name("d" * 125, "n" * 125)) == MAX_STREAM_NAME
    assert len(stream_name("ü" * 30, "n" * 70)) == MAX_STREAM_NAME
    with pytest.raises(ValueError, match="256 bytes"):
        stream_name("d" * 125, "n" * 126)
    assert stream_owner("L__" + "d" * 125 + "__" + "n" * 126) is None


@pytest.mark.parametrize("name", ["", "\ud800", "x" * 256, "ü" * 43])
def test_what_cannot_be_a_token(name: str) -> None:
    with pytest.raises(ValueError):
        token(name)


@pytest.mark.parametrize("found", ["", "_", "a_", "_4", "_5F", "_61", "__", "a.b", "ü", "_ff", "_c3", "a\n", "x" * 256])
def test_what_is_no_token(found: str) -> None:
    with pytest.raises(ValueError):
        name_of(found)


@pytest.mark.parametrize("name", ["", "L", "L__", "L__a", "L__a__", "L__a__b__c", "L__a_b", "l__a__b", "L__a___b", "X__a__b"])
def test_streams_of_others(name: str) -> None:
    assert stream_owner(name) is None
