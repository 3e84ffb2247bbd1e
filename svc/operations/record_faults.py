"""What is wrong with the records of an insert, update or upsert: several at once, each with its index, key and attribute (spec: operations §3.1)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from svc.errors import ClientError, Problem, ValidationError
from svc.resources.list_faults import LONGEST_NAME, MAX_FAULTS, ListFaults, place_of
from svc.store import Table

MAX_NAMES = 100  # faulty names of attributes that one message has


class WordedFault(ValidationError):
    """One whose words are all of the message (spec: operations §3.1 rules 5 to 7)."""


class RecordFaults:
    """Made when there is a fault. Errors that the specification words in full come first: the values that are at fault beside them are told the next time."""

    def __init__(self, records: list[dict[str, Any]], table: Table, source: str) -> None:
        """`source`: of the values, as the validator knows it."""
        self._records = records
        self._key_name = table.primary_key
        self._values = ListFaults(records, table, None, source, says_elements=len(records) > 1)
        self._texts: dict[str, None] = {}
        self._faults: list[Mapping[str, Any]] = []

    @property
    def is_full(self) -> bool:
        return len(self._faults) >= MAX_FAULTS or len(self._texts) >= MAX_NAMES or self._values.is_full

    def add(self, index: int, error: ClientError, attribute: str | None = None) -> None:
        """`attribute`: whose name is at fault."""
        if type(error) is not WordedFault:
            self._values.add(index, error)
            return
        if len(self._texts) < MAX_NAMES:
            self._texts[error.message] = None
        if len(self._faults) < MAX_FAULTS:
            named = {} if attribute is None or len(attribute) > LONGEST_NAME else {"attribute": attribute}
            self._faults.append(place_of(index, self._records[index].get(self._key_name)) | named | {"message": error.message})

    def error(self) -> Problem:
        if not self._texts:
            return self._values.error()
        error = ValidationError(list(self._texts))
        error.faults = tuple(self._faults)
        return error
