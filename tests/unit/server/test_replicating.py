"""What an instance makes of its configuration and its certificates before it replicates."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from svc.clock import FakeClock
from svc.config import Config
from svc.errors import ClientError
from svc.logs import Logs
from svc.server.replicating import Replicating
from svc.store import Store
from svc.store.system import CERTIFICATE_TABLE, NODE_TABLE, SYSTEM
from svc.store.values.records import decode
from svc.tls.certificates import renew_certificates
from tests.support.prepared import open_prepared
from tests.support.sibling_world import SiblingWorld

YEAR = 365 * 86_400


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    store = open_prepared(tmp_path / "database")
    yield store
    store.close()


def replicating(path: Path, store: Store, clock: FakeClock | None = None, **section: Any) -> Replicating:
    config = Config.from_document({"node": {"hostname": "host"}, "replication": {"hostname": "a", **section}}, path)
    reactor: Any = SimpleNamespace(clock=clock or FakeClock())
    nothing: Any = None
    return Replicating(config, store, SiblingWorld().start(), nothing, Logs(FakeClock()), reactor, nothing)


def records(store: Store, table: str) -> dict[str, dict[str, Any]]:
    found = store.databases[SYSTEM].tables[table]
    return {record["name"]: record for record in (decode(raw) for _, raw in found.scan(found.database.snapshot()))}


def register(each: Replicating, store: Store) -> None:
    each._make_options()
    each._register()
    store.commit_turn()


def test_a_node_enters_itself(tmp_path: Path, store: Store) -> None:
    each = replicating(tmp_path, store, shard=3)
    register(each, store)
    node = records(store, NODE_TABLE)["a"]
    assert (node["url"], node["shard"]) == ("wss://a:9933", 3)
    certificate = records(store, CERTIFICATE_TABLE)["a/replication"]
    assert certificate["certificate"].count("BEGIN CERTIFICATE") == 2, "its authority comes with it"
    assert certificate["details"]["subject"] == "CN=a" and "DNS:host" in certificate["details"]["subject_alt_name"]
    before = node["__updatedtime__"]
    register(replicating(tmp_path, store, FakeClock(), shard=3), store)
    assert records(store, NODE_TABLE)["a"]["__updatedtime__"] == before, "nothing has changed"


def test_an_address_that_others_have_given_it_stays(tmp_path: Path, store: Store) -> None:
    register(replicating(tmp_path, store), store)
    transaction = store.begin()
    transaction.patch(store.databases[SYSTEM].tables[NODE_TABLE], "a", {"url": "wss://10.0.0.1:9933"})
    transaction.apply()
    store.commit_turn()
    register(replicating(tmp_path, store), store)
    assert records(store, NODE_TABLE)["a"]["url"] == "wss://10.0.0.1:9933"
    register(replicating(tmp_path, store, url="wss://there:1"), store)
    assert records(store, NODE_TABLE)["a"]["url"] == "wss://there:1"


def test_a_certificate_of_another_name(tmp_path: Path, store: Store) -> None:
    renew_certificates(tmp_path, "other", clock=FakeClock())
    with pytest.raises(ClientError) as caught:
        replicating(tmp_path, store)._make_options()
    assert str(caught.value) == (
        f"{tmp_path}/keys/certificate.pem is of 'other', 'localhost', '127.0.0.1', not of the node 'a': 'replication.hostname' has to be one of its"
        " names; 'svc renew-certs' makes a new one"
    )


@pytest.mark.parametrize(("years", "text"), [(11, "has expired, on "), (-1, "is not valid before ")])
def test_a_certificate_of_another_time(tmp_path: Path, store: Store, years: int, text: str) -> None:
    clock = FakeClock()
    renew_certificates(tmp_path, "a", clock=clock)
    clock.advance(years * YEAR)
    with pytest.raises(ClientError, match=text):
        replicating(tmp_path, store, clock)._make_options()


def test_a_plain_port_needs_no_certificate(tmp_path: Path, store: Store) -> None:
    register(replicating(tmp_path, store, port=9944), store)
    assert records(store, NODE_TABLE)["a"]["url"] == "wss://a:9944" and records(store, CERTIFICATE_TABLE) == {}
