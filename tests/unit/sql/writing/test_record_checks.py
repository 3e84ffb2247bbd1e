"""svc.sql.writing.record_checks: faults of records, and their blobs."""

from typing import Any

import pytest

from svc.errors import BadValue, ClientError, ValidationError
from svc.sql.writing.record_checks import RowFaults, own_blobs
from svc.store import Store, Table, create_blob
from svc.store.schema import Attribute, TableDefinition
from svc.store.values.records import decode


def refusal(table: Table, record: dict[str, Any]) -> ValidationError:
    with pytest.raises(ValidationError) as refused:
        table.validator.record(record)
    return refused.value


def test_faults_say_where_they_are(items: Table) -> None:
    faults = RowFaults(items, numbers_rows=True)
    faults.check()
    first, second = {"id": 7, "n": "x", "flag": 5}, {"n": "y"}
    faults.add(3, first, refusal(items, first))
    faults.add(4, second, refusal(items, second))
    faults.add(5, {}, BadValue("of another kind, which is told the next time"))
    with pytest.raises(ValidationError) as refused:
        faults.check()
    assert refused.value.message.startswith("Element 3 (7): Value ") and "Element 4: Value " in refused.value.message
    assert [(fault["index"], fault.get("key"), fault["attribute"]) for fault in refused.value.faults] == [
        (3, 7, "n"),
        (3, 7, "flag"),
        (4, None, "n"),
    ]
    faults = RowFaults(items, numbers_rows=False)
    faults.add(3, first, BadValue("bad"))
    with pytest.raises(ClientError) as bad:
        faults.check()
    assert (bad.value.message, bad.value.code) == ("bad (7)", "BAD_VALUE") and bad.value.faults == ({"key": 7, "message": "bad"},)


def test_the_first_faults_are_enough(items: Table) -> None:
    faults = RowFaults(items, numbers_rows=True)
    count = 0
    with pytest.raises(ValidationError) as refused:
        while True:
            record = {"id": count, "n": "x"}
            faults.add(count, record, refusal(items, record))
            count += 1
    assert len(refused.value.faults) == 20 == count + 1


def test_blobs_of_other_records_are_copied(store: Store) -> None:
    attributes = (Attribute("id", "Int", primary_key=True), Attribute("a"))
    table = store.open_database("data").define_table(TableDefinition("Paper", attributes=attributes))
    transaction = store.begin()
    transaction.put(table, 1, {"a": [create_blob(b"x" * 20_000)]})
    transaction.put(table, 2, {"a": {"b": create_blob(b"y" * 20_000), "small": create_blob(b"z")}})
    transaction.apply()
    store.commit_turn()
    first, second = (table.get_raw(key) for key in (1, 2))
    assert first is not None and second is not None
    changes = {"a": [decode(first)["a"][0], decode(second)["a"]], "n": 1}
    own = own_blobs(changes, lambda: first)
    assert own["a"][0] is changes["a"][0] and own["n"] == 1
    assert own["a"][1]["b"].unsaved is not None and own["a"][1]["small"] is changes["a"][1]["small"]
    assert changes["a"][1]["b"].unsaved is None
    plain = {"a": [1, {"b": 2}]}
    assert own_blobs(plain, lambda: pytest.fail("it need not be read")) is plain
