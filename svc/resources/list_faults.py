"""What is wrong with the elements of a list that was sent to be written: several at once, each with its index, line, key and attribute (spec: http §5.1)."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from svc.errors import BadBody, ClientError, Problem, ValidationError
from svc.messages import Request
from svc.store import Transaction
from svc.store.schema import TableDefinition
from svc.store.values.conversion import shown
from svc.store.values.keys import decode_key
from svc.store.values.type_checkers import required_text
from svc.store.values.validation import EMPTY_KEYS, Validator

MAX_FAULTS = 20
_OF_KEYS = frozenset(("RECORD_EXISTS", "KEY_CONFLICT"))
NDJSON = "application/x-ndjson"
_LONG = 1 << 20  # bytes of a body in which lines are not counted
_BLANK = re.compile(rb"(?:\A|\n)[ \t\r\f\v]*\n")


class ListFaults:
    """The faults of the elements of one list. Made when there is one."""

    def __init__(self, records: list[Any], definition: TableDefinition, request: object) -> None:
        self._records = records
        self._definition = definition
        self._request = request
        self._errors: list[tuple[int, Problem]] = []

    @property
    def is_full(self) -> bool:
        return len(self._errors) >= MAX_FAULTS

    def add(self, index: int, error: Problem) -> None:
        self._errors.append((index, error))

    def error(self, validator: Validator, source: str) -> Problem:
        """All of them as one error, of the kind of the first."""
        first = self._errors[0][1]
        messages: list[str] = []
        faults: list[Mapping[str, Any]] = []
        for index, error in self._errors:
            if type(error) is not type(first) or error.code != first.code:
                continue
            record = self._records[index]
            key = record.get(self._definition.primary_key) if isinstance(record, dict) else None
            place = self._place(index, key)
            told: list[dict[str, Any]] = [{"message": text} for text in error.errors] or [dict(fault) for fault in error.faults]
            for fault in told or [{"message": error.message}]:
                text = str(fault["message"])
                messages.append(text if text.startswith("Element ") else f"Element {index}{_of_key(key)}: {text}")
                if "attribute" not in fault and isinstance(error, ValidationError):
                    attribute = _attribute_of(text, record, self._definition, validator, source)
                    if attribute is not None:
                        fault["attribute"] = attribute
                faults.append(place | fault)
        messages, faults = messages[:MAX_FAULTS], faults[:MAX_FAULTS]
        if isinstance(first, ValidationError):
            told_all: Problem = ValidationError(messages)
        else:
            told_all = ClientError(". ".join(messages), first.status_code, first.code, headers=first.headers, retryable=first.retryable)
        told_all.faults = tuple(faults)
        return told_all

    def _place(self, index: int, key: object) -> dict[str, Any]:
        place: dict[str, Any] = {"index": index}
        line = _line_of(index, self._records, self._request)
        if line is not None:
            place["line"] = line
        if key is not None and key not in EMPTY_KEYS:
            place["key"] = key
        return place


def named_write(error: ClientError, transaction: Transaction, records: Sequence[Any], request: object, is_list: bool) -> ClientError:
    """The error with which the writes of `transaction` have failed, with the record it is about. `records`: those of a list that is still known."""
    tells_key = is_list or error.code in _OF_KEYS  # of a single record the client knows it, or it is one that we have made
    key = decode_key(transaction.failed_key) if tells_key and transaction.failed_key else None
    return named(error, list(key) if type(key) is tuple else key, transaction.failed_at if is_list else None, records, request)


def named(error: ClientError, key: object, index: int | None, records: Sequence[Any], request: object) -> ClientError:
    """The error with the record it is about: its key, and its index in a list."""
    place: dict[str, Any] = {}
    said = []
    if key is not None:
        said.append(shown(key))
    if index is not None:
        place["index"] = index
        line = _line_of(index, records, request)
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


def _line_of(index: int, records: Sequence[Any], request: object) -> int | None:
    """The line on which an element begins; None: it has none, or it is not worth the time."""
    line = getattr(records[index], "line", None) if index < len(records) else None
    if line is not None:
        return int(line)
    if not isinstance(request, Request):  # a call of code has no lines
        return None
    content = request.content
    named = (request.block.get("content-type") or "").partition(";")[0].strip().lower()
    if named != NDJSON or len(content) > _LONG:
        return None
    if _BLANK.search(content) is None:
        return index + 1
    filled = [number for number, line in enumerate(content.split(b"\n"), 1) if line and not line.isspace()]
    return filled[index] if index < len(filled) else None


def _of_key(key: object) -> str:
    return "" if key is None or key in EMPTY_KEYS else f" ({shown(key)})"


def _attribute_of(message: str, record: Any, definition: TableDefinition, validator: Validator, source: str) -> str | None:
    """The attribute that a message of the validator is about: the one that brings it forth alone, or that is not there."""
    if not isinstance(record, dict):
        return None
    for name, value in record.items():
        try:
            validator.changes({name: value}, source=source)
        except ValidationError as error:
            if message in error.errors:
                return str(name)
        except ClientError as error:
            if message == error.message:
                return str(name)
    absent = [attribute.name for attribute in definition.attributes if attribute.required and record.get(attribute.name) is None]
    return next((name for name in absent if message == required_text(name, name in record)), None)


def not_an_object(number: int) -> BadBody:
    return BadBody(f"Element {number} of the body is not an object")
