"""What is no key lets nobody in, and a key nobody but its bearer (spec: rows §2.7)."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from svc.auth.api_key_format import START, hash_of, is_whole, new_key, prefix_of
from svc.auth.api_keys import ApiKeys
from svc.auth.identify import Identifier
from svc.auth.users import User, UserDirectory
from svc.clock import FakeClock
from svc.errors import Problem
from svc.logs.redact import without_keys
from svc.messages import HeaderBlock, Request
from svc.store import Store
from svc.store.system import KEY_TABLE, KEY_USE_TABLE, SYSTEM, ensure_system
from tests.support.identifying import make_identifier

KEY = new_key()
HEADER = st.text(st.characters(min_codepoint=0x20, max_codepoint=0xFF), max_size=60)  # latin-1, as drivers decode header fields
FORMED = st.from_regex(r"[0-9A-Za-z]{10}_[0-9A-Za-z]{33}", fullmatch=True)


@pytest.fixture(scope="module")
def identifier(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Identifier]:
    clock = FakeClock()
    store = Store(tmp_path_factory.mktemp("keys") / "store", clock=clock)
    tables = ensure_system(store).tables
    transaction = store.begin()
    transaction.put(tables[KEY_TABLE], "known", {"name": "known", "prefix": prefix_of(KEY), "secret_hash": hash_of(KEY), "role": "none"})
    transaction.put(tables[KEY_USE_TABLE], prefix_of(KEY), {"prefix": prefix_of(KEY)})
    store.commit_now(transaction)
    directory = UserDirectory(store)
    assert store.databases[SYSTEM].tables[KEY_TABLE].indexes["prefix"]
    yield make_identifier(directory, clock=clock, keys=lambda: ApiKeys(directory, clock), cache_ttl=0)
    store.close()


def identify(identifier: Identifier, token: str) -> object:
    try:
        return identifier.identify(Request("GET", "/", HeaderBlock([("authorization", f"Bearer {token}")])))
    except Problem as problem:
        assert problem.status_code == 401
        assert token not in problem.message or len(token) < 8
        return None


@given(HEADER | FORMED)
@example("")
@example("\x00")
@example(KEY[4:-1])
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_anything_behind_the_start(identifier: Identifier, text: str) -> None:
    found = identify(identifier, START + text)
    assert found is None or (START + text).strip() == KEY


@given(st.integers(0, len(KEY) - 1), st.characters(min_codepoint=0x20, max_codepoint=0xFF), st.sampled_from(("set", "insert", "remove")))
def test_anything_but_the_key(identifier: Identifier, place: int, character: str, change: str) -> None:
    text = KEY[:place] + ("" if change == "remove" else character) + KEY[place + (change != "insert") :]
    found = identify(identifier, text)
    assert (type(found) is User) == (text.strip() == KEY) == is_whole(text.strip())


@given(HEADER, HEADER)
def test_no_text_for_a_log_has_a_key(before: str, behind: str) -> None:
    assert KEY not in without_keys(before + KEY + behind)
    assert "svc_" in before + behind or without_keys(before + behind) == before + behind
