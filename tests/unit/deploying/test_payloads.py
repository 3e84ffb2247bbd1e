"""Archives as they are sent."""

from __future__ import annotations

import base64
import hashlib
import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from svc.deploying import payloads
from svc.deploying.payloads import Payload, store_payload
from svc.errors import ValidationError
from svc.store.backup.watch import CopyStopped, Watch


@given(st.binary(min_size=1, max_size=200), st.integers(4, 40), st.sampled_from(["plain", "url", "unpadded", "lines"]))
def test_base64_in_any_form_becomes_the_same_bytes(tmp_path_factory: pytest.TempPathFactory, data: bytes, piece: int, form: str) -> None:
    text = (base64.urlsafe_b64encode if form == "url" else base64.b64encode)(data).decode()
    if form == "unpadded":
        text = text.rstrip("=")
    if form == "lines":
        text = "\r\n".join(text[start : start + 7] for start in range(0, len(text), 7))
    path = tmp_path_factory.mktemp("payload") / "p"
    before, payloads.PIECE = payloads.PIECE, piece
    try:
        stored = store_payload(Payload.of(text), path, Watch())
    finally:
        payloads.PIECE = before
    assert path.read_bytes() == data
    assert (stored.size, stored.hash) == (len(data), hashlib.sha256(data).hexdigest())


@pytest.mark.parametrize("text", ["", "%", "abc$", "a", "\u00e9", "====", "YQ==YQ==", " "])
def test_what_is_no_base64_is_refused(text: str, tmp_path: Path) -> None:
    with pytest.raises(ValidationError):
        store_payload(Payload.of(text), tmp_path / "p", Watch())
    assert not list(tmp_path.iterdir())


def test_bytes_are_stored_as_they_are(tmp_path: Path) -> None:
    data = os.urandom(1 << 20)
    assert store_payload(Payload.of(data), tmp_path / "p", Watch()).size == len(data)
    assert (tmp_path / "p").read_bytes() == data


def test_nothing_is_left_of_one_that_is_stopped(tmp_path: Path) -> None:
    watch = Watch(lambda done, total: watch.stop())
    with pytest.raises(CopyStopped):
        store_payload(Payload.of(os.urandom(1 << 20)), tmp_path / "p", watch)
    assert not list(tmp_path.iterdir())
