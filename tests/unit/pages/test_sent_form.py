"""What a form has sent, read in short turns (spec: http §7.8)."""

from __future__ import annotations

import asyncio
from urllib.parse import parse_qsl, urlencode

import pytest
from hypothesis import given
from hypothesis import strategies as st

from svc.errors import ClientError
from svc.messages import HeaderBlock, Request
from svc.pages import sent_form as module
from svc.pages.sent_form import SentForm, sent_form

URLENCODED = "application/x-www-form-urlencoded"


def read(body: bytes, kind: str = URLENCODED) -> tuple[SentForm, int]:
    """What was read, and in how many turns."""
    turns = 0

    async def count() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    async def run() -> SentForm:
        counting = asyncio.create_task(count())
        try:
            return await sent_form(Request("POST", "/", HeaderBlock([("content-type", kind)]), body))
        finally:
            counting.cancel()

    return asyncio.run(run()), turns


@given(st.lists(st.tuples(st.text(st.characters(exclude_categories=["Cs"])), st.text(st.characters(exclude_categories=["Cs"])))))
def test_fields_are_what_the_library_reads(pairs: list[tuple[str, str]]) -> None:
    body = urlencode(pairs)
    assert read(body.encode())[0].fields == dict(reversed(parse_qsl(body, keep_blank_values=True)))


@given(st.text("a%4+&=é\u20ac", max_size=30), st.integers(3, 9))
def test_the_length_of_a_step_changes_nothing(text: str, step: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "_STEP", step)
        body = text.encode()
        try:
            expected = dict(reversed(parse_qsl(text, keep_blank_values=True, errors="strict")))
        except UnicodeDecodeError:
            with pytest.raises(ClientError):
                read(body)
        else:
            assert read(body)[0].fields == expected


def test_a_long_field_is_read_in_many_turns() -> None:
    value = "%41" * 200_000
    form, turns = read(f"a={value}&b=1".encode())
    assert form.fields == {"a": "A" * 200_000, "b": "1"}
    assert turns > 30


@pytest.mark.parametrize("body", [b"a=%FF", b"a=\xff", b"&".join([b"a=1"] * 2001)])
def test_what_cannot_be_read_is_refused(body: bytes) -> None:
    with pytest.raises(ClientError) as raised:
        read(body)
    assert raised.value.status_code == 400


def test_many_fields_together_are_read_in_many_turns() -> None:
    value = "%41" * 5000
    form, turns = read("&".join(f"a{number}={value}" for number in range(100)).encode())
    assert len(form.fields) == 100
    assert turns > 40


def test_a_form_without_files_has_a_limit() -> None:
    with pytest.raises(ClientError) as raised:
        read(b"a=" + b"+" * (16 << 20))
    assert raised.value.status_code == 413
