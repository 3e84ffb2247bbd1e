"""svc.api.administration: figures, history and definition of a table, by its class."""

from __future__ import annotations

from pathlib import Path

import pytest

from svc.errors import ClientError
from tests.support.application import Application, application

SCHEMA = """
type Seat @table { id: ID @primaryKey stock: Int double: Int @computed }
type Counter @table { id: Long @primaryKey label: String }
"""


async def work(app: Application) -> None:
    seats, counters = app.tables.Seat, app.tables.Counter
    start = app.node.clock.wall() * 1000
    await seats.put("a", {"stock": 1})
    app.node.clock.advance(1)
    await seats.patch("a", {"stock": 2})
    await seats.publish("a", {"hello": 1})
    await seats.put("b", {"stock": 5})
    await seats.delete("b")
    assert dict(await seats.get_record_count())["record_count"] == (await seats.get_record_count()).record_count == 1
    assert await seats.get_size() > 0 and await seats.get_audit_size() == 5
    assert (await seats.get_storage_stats())["record_count"] == 1
    history = await seats.get_history().to_list()
    assert [(entry.type, entry.id) for entry in history] == [("put", "a"), ("patch", "a"), ("message", "a"), ("put", "b"), ("delete", "b")]
    assert history[0].value == {"stock": 1, "id": "a"} and history[2].value == {"hello": 1} and history[0].local_time < history[1].localTime
    assert [entry.type async for entry in seats.get_history(start + 500)] == ["patch", "message", "put", "delete"]
    assert [entry.type async for entry in seats.get_history(0, start + 500)] == ["put"]
    assert [entry.type for entry in await seats.get_history_of_record("a")] == ["put", "patch"]
    assert await seats.get_history_of_record("none") == []
    assert await seats.delete_history(start + 500) == 1
    assert len(await seats.get_history().to_list()) == 4
    assert counters.coerce_id("5") == 5 and seats.coerce_id("5") == "5" and isinstance(seats.get_new_id(), str)
    with pytest.raises(ClientError):
        counters.coerce_id("five")
    assert isinstance(counters.get_new_id(), int) and (seats.primary_key, seats.table_name, seats.database_name) == ("id", "Seat", "data")
    assert [attribute["name"] for attribute in seats.attributes] == ["id", "stock", "double"] and not seats.sealed and seats.schema_defined
    seats.set_ttl_expiration(60, eviction=5)
    assert seats.expiration_ms == 60_000
    await seats.put("short", {"stock": 1})
    assert (await seats.get("short")).get_expires_at() == pytest.approx(app.node.clock.wall() * 1000 + 60_000, abs=2000)
    app.node.clock.advance(61)
    assert await seats.get("short") is None and await seats.get("a") is not None
    for wrong in (-1, "x", float("nan")):
        with pytest.raises(ClientError):
            seats.set_ttl_expiration(wrong)
    seats.set_computed_attribute("double", lambda record: record["stock"] * 2)
    assert (await seats.get("a")).double == 4
    seats.set_computed_attribute("stock", lambda record: 1)
    assert (await seats.get("a")).stock == 2
    seats.enable_auditing(False)
    assert seats.audit is False


def test_what_the_class_of_a_table_offers(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with application(tmp_path, "", SCHEMA) as app:
        app.run(work(app))
    assert "stock is not a computed attribute of Seat" in caplog.text
