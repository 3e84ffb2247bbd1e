"""svc.api.records, instances, tracked, frozen: records that were read, and those that can be changed."""

from __future__ import annotations

import copy
import pickle
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from svc.errors import ClientError, RecordExists, ValidationError
from tests.support.application import Application, application

CODE = """
from svc import tables

class Seat(tables.Seat):
    pass
"""


def run(path: Path, work: Any, code: str = CODE) -> None:
    with application(path, code) as app:
        app.run(work(app))


def test_a_record_that_was_read_cannot_be_changed(tmp_path: Path) -> None:
    async def work(app: Application) -> None:
        seats = app.tables.Seat
        await seats.put("a", {"stock": 1, "tags": ["x"], "place": {"row": {"n": 4}, "l": [{"z": 1}]}})
        record = await seats.get("a")
        assert record.stock == record["stock"] == 1 and record.price is None
        assert dict(record) == {"id": "a", "stock": 1, "tags": ["x"], "place": {"row": {"n": 4}, "l": [{"z": 1}]}}
        assert {**record, "stock": 2}["stock"] == 2 and "stock" in record and "price" not in record and len(record) == 4
        with pytest.raises(AttributeError, match="Seat has no attribute 'nothing'"):
            record.nothing  # noqa: B018
        with pytest.raises(KeyError):
            record["nothing"]
        changes = (
            lambda: setattr(record, "stock", 2),
            lambda: record.__setitem__("stock", 2),
            lambda: record.__delitem__("stock"),
            lambda: delattr(record, "stock"),
            lambda: record.tags.append("y"),
            lambda: record.tags.__setitem__(0, "y"),
            lambda: record.place.update(a=1),
            lambda: record.place["row"].pop("n"),
            lambda: record.place["l"][0].__setitem__("z", 2),
            lambda: next(iter(record.place["l"])).clear(),
            lambda: record.place.get("row").setdefault("q", 1),
        )
        for change in changes:
            with pytest.raises(TypeError, match="cannot be changed"):
                change()
        assert (await seats.get("a")).place["row"]["n"] == 4
        changed = record.copy()
        changed["place"]["row"]["n"] = 5
        assert copy.deepcopy(record.place)["row"]["n"] == 4
        await seats.put("a", changed)
        assert (await seats.get("a")).place["row"]["n"] == 5
        assert record.get_id() == "a" and record.get_updated_time() > 0 and record.get_expires_at() is None
        assert record == await seats.get("a") or record.place["row"]["n"] == 4

    run(tmp_path, work)


def test_related_records(tmp_path: Path) -> None:
    async def work(app: Application) -> None:
        await app.tables.Show.put("f", {"title": "Faust"})
        for n in range(3):
            await app.tables.Seat.put(f"s{n}", {"showId": "f" if n < 2 else None, "stock": n})
        seat = await app.tables.Seat.get("s1")
        assert (await seat.show).title == "Faust"
        assert await (await app.tables.Seat.get("s2")).show is None
        show = await app.tables.Show.get("f")
        assert [each.id async for each in show.seats] == ["s0", "s1"]
        assert await show.seats.map(lambda each: each.stock).to_list() == [0, 1]

    run(tmp_path, work)


def test_an_updatable_is_saved_when_its_transaction_commits(tmp_path: Path) -> None:
    code = """
    from svc import tables, transaction

    async def work():
        seats = tables.Seat
        await seats.put("a", {"stock": 3, "place": {"row": 1, "l": [{"n": 1}]}, "tags": ["x", "y"]})
        async with transaction():
            seat = await seats.update("a", {"price": 7})
            seat.place["row"] = 4
            seat.place["l"][0]["n"] += 1
            seat.tags.append("z")
            seat["lastBuyer"] = "anna"
            seat.set("since", None)
            seat.add_to("stock", 2)
            seat.subtract_from("stock", 1)
            assert seat.stock == 4 and seat.price == 7
            assert (await seats.get("a")).stock == 3
            again = await seats.update("a")
            assert again is seat
        return dict(await seats.get("a"))
    """
    with application(tmp_path, code) as app:
        record = app.run(app.module.work())
        assert record == {
            "id": "a", "stock": 4, "place": {"row": 4, "l": [{"n": 2}]}, "tags": ["x", "y", "z"], "price": 7, "lastBuyer": "anna", "since": None,
        }  # fmt: skip


def test_increments_of_concurrent_transactions_all_count(tmp_path: Path) -> None:
    code = """
    import asyncio
    from svc import tables, transaction

    async def one():
        async with transaction():
            seat = await tables.Seat.update("a")
            await asyncio.sleep(0)
            seat.add_to("stock", 1)
            await asyncio.sleep(0)

    async def work():
        await tables.Seat.put("a", {"stock": 0})
        await asyncio.gather(*[one() for _ in range(20)])
        return (await tables.Seat.get("a")).stock
    """
    with application(tmp_path, code) as app:
        assert app.run(app.module.work()) == 20


def test_properties_are_removed_and_saved_at_once(tmp_path: Path) -> None:
    async def work(app: Application) -> None:
        seats = app.tables.Seat
        await seats.put("a", {"stock": 3, "price": 1, "tags": ["x"]})
        seat = await seats.update("a")
        seat.delete_property("tags")
        del seat["price"]
        seat.stock = 5
        assert "tags" not in seat and seat.price is None
        await seat.save()
        assert dict(await seats.get("a")) == {"id": "a", "stock": 5}
        seat.add_to("stock", 1)
        await seat.save()
        await seat.save()
        assert (await seats.get("a")).stock == 6
        await seat.put({"stock": 1})
        assert dict(await seats.get("a")) == {"id": "a", "stock": 1}
        await seat.patch({"price": 2})
        assert dict(await seats.get("a")) == {"id": "a", "stock": 1, "price": 2}

    run(tmp_path, work)


def test_values_that_do_not_fit(tmp_path: Path) -> None:
    async def work(app: Application) -> None:
        seats = app.tables.Seat
        await seats.put("a", {"stock": 3})
        for bad in ({"stock": "many"}, {"price": []}, {"since": "no date"}):
            with pytest.raises(ValidationError):
                await seats.put("a", bad)
            with pytest.raises(ValidationError):
                await seats.patch("a", bad)
            with pytest.raises(ValidationError):
                await seats.update("a", bad)
        with pytest.raises(ClientError, match="is not a number"):
            (await seats.update("a")).add_to("stock", "1")
        with pytest.raises(ClientError):
            await seats.put(["a", "b"], {"stock": 1})
        with pytest.raises(ClientError):
            await seats.update(None)
        for wrong in (None, 5, "x", [1]):
            with pytest.raises(ClientError):
                await seats.put("a", wrong)
        assert dict(await seats.get("a")) == {"id": "a", "stock": 3}
        with pytest.raises(AttributeError, match="is a name of the class"):
            (await seats.update("a")).save = 5

    run(tmp_path, work)


def test_python_values(tmp_path: Path) -> None:
    async def work(app: Application) -> None:
        when = datetime(2026, 1, 2, tzinfo=UTC)
        await app.tables.Seat.put("a", {"since": when, "image": b"\x00\x01", "place": {"at": when, "set": {1, 2}}})
        record = await app.tables.Seat.get("a")
        assert record.since == when and record.image == b"\x00\x01" and record.place["at"] == when and record.place["set"] == {1, 2}
        await app.tables.Seat.patch("a", {"since": "2026-05-01T00:00:00Z"})
        assert (await app.tables.Seat.get("a")).since == datetime(2026, 5, 1, tzinfo=UTC)

    run(tmp_path, work)


def test_creating(tmp_path: Path) -> None:
    async def work(app: Application) -> None:
        created = await app.tables.Seat.create({"stock": 1})
        assert created.get_id() == created.id and (await app.tables.Seat.get(created.id)).stock == 1
        with pytest.raises(RecordExists):
            await app.tables.Seat.create({"id": created.id, "stock": 2})
        prefixed = await app.tables.Seat.create("row/", {"stock": 3})
        assert prefixed.id.startswith("row/")
        first, second = await app.tables.Counter.create({"label": "a"}), await app.tables.Counter.create({"label": "b"})
        assert second.id == first.id + 1 and (await app.tables.Counter.get(second.id)).label == "b"
        with pytest.raises(ValidationError, match="label"):
            await app.tables.Counter.create({})
        assert (await app.tables.Seat.get(created.id)).stock == 1

    run(tmp_path, work)


def test_validate_of_a_class(tmp_path: Path) -> None:
    code = """
    from svc import ClientError, tables

    class Seat(tables.Seat):
        async def validate(self, record, partial=False):
            super().validate(record, partial)
            if record.get("stock") == 13:
                raise ClientError("thirteen is unlucky", 422, "UNLUCKY")
    """
    with application(tmp_path, code) as app:
        assert app.ask("PUT", "/Seat/a", {"stock": 1})[0] == 204
        for method, path in (("PUT", "/Seat/a"), ("PATCH", "/Seat/a"), ("POST", "/Seat/")):
            status, problem = app.ask(method, path, {"stock": 13})
            assert (status, problem["code"]) == (422, "UNLUCKY"), method
        with pytest.raises(ClientError, match="unlucky"):
            app.run(app.module.Seat.update("a", {"stock": 13}))
        assert app.ask("GET", "/Seat/") == (200, [{"id": "a", "stock": 1}])


def test_increments_within_bounds(tmp_path: Path) -> None:
    code = """
    from svc import tables

    class Seat(tables.Seat):
        @classmethod
        async def post(cls, target, data):
            seat = await cls.update(target.id)
            seat.subtract_from("stock", data["n"], at_least=0)
            seat.add_to("price", data["n"], at_most=10)
            await tables.Journal.create({"seat": target.id})
            return seat.stock
    """
    with application(tmp_path, code) as app:
        app.run(app.tables.Seat.put("a", {"stock": 3}))
        wires = [app.node.connect() for _ in range(5)]
        for wire in wires:  # all in one turn: each reads that there are three
            wire.sock.incoming.append(
                b'POST /Seat/a HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 7\r\n\r\n{"n":1}'
            )
            wire._loop.readers[wire.sock]()
        app.node.settle()
        assert sorted(wire.sock.sent[9:12] for wire in wires) == [b"200", b"200", b"200", b"409", b"409"]
        assert app.run(app.tables.Seat.get("a")).stock == 0 and len(app.ask("GET", "/Journal/")[1]) == 3
        app.run(app.tables.Seat.put("a", {"stock": 100}))
        status, problem = app.ask("POST", "/Seat/a", {"n": 11})
        assert (status, problem["code"], problem["detail"]) == (
            409,
            "OUT_OF_BOUNDS",
            "price of this Seat would become 11, and must stay at most 10",
        )


WHOLE = {"tags": ["a", "b"], "place": {"rows": [{"a": 1}, {"b": [1, [2]]}], "m": {"x": 1}}}


@pytest.mark.parametrize(
    "members",
    [
        lambda place: reversed(place["rows"]),
        lambda place: place["rows"] + [{}],
        lambda place: [{}] + place["rows"],
        lambda place: place["rows"] * 2,
        lambda place: 2 * place["rows"],
        lambda place: [*place["rows"]],
        lambda place: sorted(place["rows"], key=str),
        lambda place: [dict(place)["m"]],
        lambda place: [{**place}["m"]],
        lambda place: [(place | {})["m"]],
        lambda place: [({} | place)["m"]],
    ],
)
def test_what_is_reached_in_whatever_way_is_tracked_or_frozen(tmp_path: Path, members: Any) -> None:
    async def work(app: Application) -> None:
        seats = app.tables.Seat
        await seats.put("a", WHOLE)
        record = await seats.get("a")
        for member in members(record.place):
            if member:
                with pytest.raises(TypeError):
                    member["z"] = 1
        assert record["place"] == WHOLE["place"]
        seat = await seats.update("a")
        for member in members(seat.place):
            if "a" in member or "x" in member:
                member["z"] = 1
        await seat.save()
        stored = (await seats.get("a")).place
        assert stored["rows"][0].get("z") == 1 or stored["m"].get("z") == 1

    run(tmp_path, work)


def test_sets_are_tracked(tmp_path: Path) -> None:
    async def work(app: Application) -> None:
        seats = app.tables.Seat
        await seats.put("a", {"place": {1, 2}})
        for change in (
            lambda place: place.add(3),
            lambda place: place.discard(1),
            lambda place: place.update([9]),
            lambda place: place.pop(),
        ):
            seat = await seats.update("a")
            change(seat.place)
            await seat.save()
        assert len((await seats.get("a")).place) == 2
        seat.place |= {77}
        assert copy.deepcopy(seat.place) == seat.place.copy() == set(seat.place)
        await seat.save()
        assert 77 in (await seats.get("a")).place

    run(tmp_path, work)


def test_a_part_of_another_record_is_copied_when_it_is_set(tmp_path: Path) -> None:
    async def work(app: Application) -> None:
        seats = app.tables.Seat
        await seats.put("a", WHOLE)
        other = await seats.update("a")
        for number, part in enumerate((other.place, (await seats.get("a")).place)):
            seat = await seats.update(f"new{number}")
            seat.place = part
            await seat.save()
            seat.place["m"]["x"] = 2
            await seat.save()
            assert (await seats.get(f"new{number}")).place == {**WHOLE["place"], "m": {"x": 2}}
        await other.save()
        assert (await seats.get("a")).place == WHOLE["place"]

    run(tmp_path, work)


def test_copies_of_a_record_are_plain(tmp_path: Path) -> None:
    async def work(app: Application) -> None:
        await app.tables.Seat.put("a", WHOLE)
        record = await app.tables.Seat.get("a")
        for copied in (copy.copy(record), copy.deepcopy(record), pickle.loads(pickle.dumps(record))):
            assert type(copied) is dict and copied == {"id": "a", **WHOLE}
            copied["place"]["rows"][1]["b"][1].append(3)
        assert record.place == WHOLE["place"]

    run(tmp_path, work)


def test_a_put_replaces_what_was_changed_before(tmp_path: Path) -> None:
    code = """
    from svc import tables, transaction

    async def work():
        await tables.Seat.put("a", {"stock": 1, "price": 1})
        async with transaction():
            seat = await tables.Seat.update("a", {"price": 5})
            seat.add_to("stock", 7)
            await tables.Seat.put("a", {"stock": 3})
            await tables.Seat.update("a", {"lastBuyer": "anna"})
        return dict(await tables.Seat.get("a"))
    """
    with application(tmp_path, code) as app:
        assert app.run(app.module.work()) == {"id": "a", "stock": 3, "lastBuyer": "anna"}
