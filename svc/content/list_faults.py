"""What is wrong with the elements of a list that was sent to be written: several at once, each with its index, line, key and attribute (spec: http §5.1)."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from svc.errors import BadBody, ClientError, Problem, ValidationError
from svc.messages import Request
from svc.store import Table, Transaction
from svc.store.values.conversion import shown
from svc.store.values.keys import MAX_KEY_CHARACTERS, decode_key
from svc.store.values.validation import EMPTY_KEYS, Validator

MAX_FAULTS = 20
_OF_KEYS = frozenset(("RECORD_EXISTS", "KEY_CONFLICT"))
NDJSON = "application/x-ndjson"
_LONG = 1 << 20  # bytes of a body in which lines are not counted
_MOST_PROPERTIES = 2000  # of an element whose faulty attributes are looked for
LONGEST_NAME = 1000  # characters of an attribute that is told
_MOST_PARTS = 16  # of a key that is told
_BLANK = re.compile(rb"(?:\A|\n)[ \t\r\f\v]*\n")


class ListFaults:
    """The faults of the elements of one list. Made when there is one."""

    def __init__(self, records: list[Any], table: Table, request: object, source: str, *, says_elements: bool = True) -> None:
        """`source`: of the values, as the validator knows it. `says_elements`: whether the messages begin with the element."""
        self._records = records
        self._key_name = table.primary_key
        self._says_elements = says_elements
        self._lines = _lines_of(request)
        self._validator = table.validator
        self._source = source
        self._errors: list[tuple[int, Problem]] = []
        self._messages: list[str] = []
        self._faults: list[Mapping[str, Any]] = []

    @property
    def is_full(self) -> bool:
        return len(self._errors) >= MAX_FAULTS

    def add(self, index: int, error: Problem) -> None:
        """Only errors of the kind of the first are told."""
        self._errors.append((index, error))
        first = self._errors[0][1]
        if type(error) is not type(first) or error.code != first.code or len(self._faults) >= MAX_FAULTS:
            return
        record = self._records[index]
        key = record.get(self._key_name) if isinstance(record, dict) else None
        place = place_of(index, key, _line_of(index, self._records, self._lines))
        for fault in told_faults(error, record, self._validator, self._source)[: MAX_FAULTS - len(self._faults)]:
            text = str(fault["message"])
            is_said = not self._says_elements or text.startswith("Element ")
            self._messages.append(text if is_said else f"Element {index}{_of_key(key)}: {text}")
            self._faults.append(place | fault)

    def error(self) -> Problem:
        """All of them as one error, of the kind of the first."""
        first = self._errors[0][1]
        if isinstance(first, ValidationError):
            told_all: Problem = ValidationError(self._messages)
        else:
            told_all = ClientError(
                ". ".join(self._messages), first.status_code, first.code, headers=first.headers, retryable=first.retryable
            )
        told_all.faults = tuple(self._faults)
        return told_all


def told_faults(error: Problem, record: object, validator: Validator, source: str) -> list[dict[str, Any]]:
    """The faults of one record, those of its values with their attributes. Takes as long as the check that has found them."""
    told: list[dict[str, Any]] = [{"message": text} for text in error.errors] if isinstance(error, ValidationError) else []
    told = told or [dict(fault) for fault in error.faults] or [{"message": text} for text in error.errors or (error.message,)]
    if isinstance(error, ValidationError) and isinstance(record, dict) and len(record) <= _MOST_PROPERTIES:
        blamed = validator.blamed(record, source)
        for fault in told:
            attribute = blamed.get(str(fault["message"]))
            if attribute is not None and len(attribute) <= LONGEST_NAME:
                fault.setdefault("attribute", attribute)
    return told


def place_of(index: int, key: object, line: int | None = None) -> dict[str, Any]:
    """`index`, `line` and `key` of a fault, as far as there are such. `key`: as it was sent."""
    place: dict[str, Any] = {"index": index}
    if line is not None:
        place["line"] = line
    if key is not None and key not in EMPTY_KEYS and could_be_key(key):
        place["key"] = key
    return place


def named_write(error: Problem, transaction: Transaction, records: Sequence[Any], request: object, is_list: bool) -> Problem:
    """The error with which the writes of `transaction` have failed, with the record it is about if that is why. `records`: those of a list that is still
    known."""
    if not isinstance(error, ClientError) and error.status_code != 403:
        return error
    tells_key = is_list or error.code in _OF_KEYS  # of a single record the client knows it, or it is one that we have made
    key = decode_key(transaction.failed_key) if tells_key and transaction.failed_key else None
    return named(error, list(key) if type(key) is tuple else key, transaction.failed_at if is_list else None, records, request)


def named_refusal(error: Problem, index: int, records: Sequence[Any], key_name: str, request: object) -> Problem:
    """A 403 about what one element of a list has, with that element. Callers who are not known are told nothing."""
    if error.status_code != 403:
        return error
    key = records[index].get(key_name)
    return named(error, key if key not in EMPTY_KEYS and could_be_key(key) else None, index, records, request)


def named(error: Problem, key: object, index: int | None, records: Sequence[Any], request: object) -> Problem:
    """The error with the record it is about: its key, and its index in a list."""
    place: dict[str, Any] = {}
    said = []
    if key is not None:
        said.append(shown(key))
    if index is not None:
        place["index"] = index
        line = _line_of(index, records, _lines_of(request))
        if line is not None:
            place["line"] = line
        said.append(f"element {index}")
    if key is not None:
        place["key"] = key
    if not said:
        return error
    error.message += f" ({', '.join(said)})"
    told = [dict(fault) for fault in error.faults] or [{"message": message} for message in error.errors or (error.message,)]
    error.faults = tuple([place | fault for fault in told])
    return error


def _line_of(index: int, records: Sequence[Any], lines: Sequence[int]) -> int | None:
    """The line on which an element begins; None: it has none, or it is not worth the time."""
    line = getattr(records[index], "line", None) if index < len(records) else None
    if line is not None:
        return int(line)
    return lines[index] if index < len(lines) else None


def _lines_of(request: object) -> Sequence[int]:
    """The lines on which the elements of an NDJSON body begin, as far as that is worth the time."""
    if not isinstance(request, Request):  # a call of code has no lines
        return ()
    content = request.content
    named = (request.block.get("content-type") or "").partition(";")[0].strip().lower()
    if named != NDJSON or len(content) > _LONG:
        return ()
    if _BLANK.search(content) is None:
        return range(1, len(content) + 1)
    return [number for number, line in enumerate(content.split(b"\n"), 1) if line and not line.isspace()]


def _of_key(key: object) -> str:
    return "" if key is None or key in EMPTY_KEYS else f" ({shown(key)})"


def could_be_key(value: object) -> bool:
    """Whether a key that was sent is worth repeating: what is too long for a key, or is no scalar, the index finds as well."""
    parts = value if isinstance(value, list | tuple) else (value,)
    return len(parts) <= _MOST_PARTS and all(
        isinstance(part, str | int | float) and (not isinstance(part, str) or len(part) <= MAX_KEY_CHARACTERS) for part in parts
    )


def not_an_object(number: int) -> BadBody:
    return BadBody(f"Element {number} of the body is not an object")
