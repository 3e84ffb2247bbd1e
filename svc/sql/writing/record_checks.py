"""Records on their way into a transaction: what is wrong with them, and the blobs that they may not share (spec: sql §5)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from svc.content.list_faults import MAX_FAULTS, place_of, told_faults
from svc.errors import ClientError, Problem, ValidationError
from svc.store import Blob, Table
from svc.store.blobs import blobs_in, create_blob
from svc.store.values.conversion import shown
from svc.store.values.records import decode

STEP = 32  # records between two reads of the clock
_WITH_BLOBS = frozenset((Blob, list, dict))


class RowFaults:
    """What is wrong with the values of records. `numbers_rows`: their place in the statement is told."""

    def __init__(self, table: Table, *, numbers_rows: bool) -> None:
        self._table = table
        self._numbers_rows = numbers_rows
        self._first: Problem | None = None
        self._messages: list[str] = []
        self._faults: list[Mapping[str, Any]] = []

    def add(self, number: int, record: dict[str, Any], error: ClientError) -> None:
        """`record`: as it was to be written, with its key as far as it has one. Raises all faults if these are enough; only those of the kind of the first
        are told."""
        first = self._first = self._first or error
        if type(error) is type(first) and error.code == first.code:
            key = record.get(self._table.primary_key)
            place = place_of(number, key)
            if not self._numbers_rows:
                del place["index"]
            where = f" ({shown(key)})" if "key" in place else ""
            for fault in told_faults(error, record, self._table.validator, "json")[: MAX_FAULTS - len(self._faults)]:
                text = fault["message"]
                self._messages.append(f"Element {number}{where}: {text}" if self._numbers_rows else f"{text}{where}")
                self._faults.append(place | fault)
        if len(self._faults) >= MAX_FAULTS:
            self.check()

    def check(self) -> None:
        """Raise what was found."""
        first = self._first
        if first is None:
            return
        told: Problem = (
            ValidationError(self._messages)
            if isinstance(first, ValidationError)
            else ClientError(". ".join(self._messages), first.status_code, first.code)
        )
        told.faults = tuple(self._faults)
        raise told


def own_blobs(record: dict[str, Any], read: Callable[[], bytes | None]) -> dict[str, Any]:
    """The record, or changes of the record that `read` returns, with copies of blobs whose files belong to other records."""
    if _WITH_BLOBS.isdisjoint(map(type, record.values())):
        return record
    foreign = [name for name, value in record.items() if any(blob.number is not None for blob in blobs_in(value))]
    if not foreign:
        return record
    raw = read()
    own = set() if raw is None else {blob.number for blob in blobs_in(decode(raw))}
    return record | {name: _copied(record[name], own) for name in foreign}


def _copied(value: Any, own: set[int | None]) -> Any:
    if type(value) is Blob:
        return value if value.number is None or value.number in own else create_blob(value)
    if type(value) is list:
        return [_copied(element, own) for element in value]
    if type(value) is dict:
        return {name: _copied(member, own) for name, member in value.items()}
    return value
