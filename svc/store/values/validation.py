"""What a table accepts, and the form in which it is stored (spec: schema-and-store §5, http §2.3-§2.4).

A `Validator` compiles one checker per attribute (`checkers.py`) when a definition is loaded, and runs them over the properties of each
record. A record in which nothing changes is not copied. Values come from two kinds of source: "json", where a date is ISO text and bytes
are base64, and "native" (CBOR, MessagePack, Python code), which has types of its own for both.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from copy import deepcopy
from datetime import datetime
from math import isfinite
from typing import Any

from svc.errors import ClientError, ValidationError
from svc.store.schema import Attribute, TableDefinition
from svc.store.values.conversion import (
    EMPTY_KEYS,
    Key,
    autoconvert,
    check_key,
    date_from_ms,
    is_encodable,
    key_from_text,
    ms_from_date,
    printable,
    refusal,
    shown,
    text_to_value,
    whole,
)
from svc.store.values.plain_records import PlainRecords
from svc.store.values.type_checkers import MAX_DEPTH, Checker, check_any, check_float, check_name, compile_checkers, required_text

__all__ = ("EMPTY_KEYS", "MAX_DEPTH", "Add", "Key", "Validator", "autoconvert", "check_key", "key_from_text", "text_to_value")

MAX_ATTRIBUTE_NAME_BYTES = 250  # of attributes that a dynamic table creates (spec: operations §1.5)
MAX_FAILURES = 100  # that one message names
MAX_VALUES = 200_000  # in the lists and objects of one record, which is checked and encoded in one go: at most about 0.1 s


class Add:
    """`{"__op__": "add", "value": n}`: an increment, exact among concurrent writers (spec: schema-and-store §9)."""

    __slots__ = ("value",)

    def __init__(self, value: int | float) -> None:
        self.value = value

    def applied_to(self, base: object) -> int | float:
        """The stored value after the increment; a base that is no number does not count. May be infinite: `merged` refuses that."""
        if type(base) is not int and type(base) is not float:
            return self.value
        try:
            total = base + self.value
        except OverflowError:  # an int beyond the doubles, plus a fraction
            return float("inf")
        return whole(total) if type(total) is float else total

    def __eq__(self, other: object) -> bool:
        return type(other) is Add and other.value == self.value

    def __hash__(self) -> int:
        return hash((Add, self.value))

    def __repr__(self) -> str:
        return f"Add({self.value!r})"


_INTEGERS = frozenset(("Int", "Long", "BigInt"))
_INCREMENTABLE = frozenset(("Int", "Long", "Float", "BigInt", "Any"))


class Validator:
    """Checks, coerces and completes the records of one table. Immutable: a changed definition gets a new one."""

    __slots__ = (
        "_attributes", "_created", "_defaults", "_definition", "_dynamic", "_expires_at", "_json", "_native", "_never_null", "_plain", "_required",
        "_required_later", "_sealed", "_times", "_updated", "completes",
    )  # fmt: skip

    def __init__(self, definition: TableDefinition) -> None:
        self._definition = definition
        self._sealed = definition.sealed
        self._dynamic = definition.dynamic
        self._json = compile_checkers(definition, "json")
        self._native = compile_checkers(definition, "native")
        self._plain: PlainRecords | None = None
        attributes = definition.attributes
        self._attributes = {attribute.name: attribute for attribute in attributes}
        self._created = tuple(attribute for attribute in attributes if attribute.created_time)
        self._updated = tuple(attribute for attribute in attributes if attribute.updated_time)
        self._times = bool(self._created or self._updated)
        self._expires_at = next((attribute.name for attribute in attributes if attribute.expires_at), None)
        # What is given its value by us is never missing.
        self._never_null = tuple(
            attribute.name
            for attribute in attributes
            if attribute.required
            and attribute.stored
            and attribute.name != definition.primary_key
            and not (attribute.created_time or attribute.updated_time or attribute.embed)
        )
        self._defaults = {attribute.name: self._default(attribute) for attribute in attributes if attribute.default}
        self.completes = bool(self._defaults)  # `complete` has something to do
        self._required = tuple([name for name in self._never_null if name not in self._defaults])
        self._required_later = tuple([name for name in self._never_null if name in self._defaults])

    def _default(self, attribute: Attribute) -> Any:
        return self._json[attribute.name](json.loads(attribute.default), attribute.name, [], 0)

    @property
    def plain_records(self) -> PlainRecords:
        """Recognises most records of JSON in less time."""
        if self._plain is None:
            self._plain = PlainRecords(self._definition, self._json)
        return self._plain

    def record(self, data: dict[str, Any], *, source: str = "json", complete: bool = True) -> dict[str, Any]:
        """The record to store for a full write: `data` itself if nothing had to be changed, else a copy with its properties in their order.

        The primary key may be missing or null: then one is assigned. Not `complete`: what is missing may be added, `require_all` follows. What has a
        default may be missing until `complete`.
        Raises ValidationError with all failures.
        """
        failures: list[str] = []
        changed = self._check(data, source, failures)
        for name in self._required if complete else ():
            if data.get(name) is None:
                failures.append(required_text(name, name in data))  # noqa: PERF401 - a comprehension would cost every good record
        if self._required_later and complete:
            failures += self._null_failures(data)
        if failures:
            raise _refused(failures)
        return data | changed if changed else data

    def _null_failures(self, data: dict[str, Any]) -> list[str]:
        return [required_text(name, True) for name in self._required_later if name in data and data[name] is None]

    def changes(self, data: dict[str, Any], *, source: str = "json") -> dict[str, Any]:
        """The properties to set by PATCH; increments become `Add`. Only the given ones are checked.

        Raises ValidationError, also for null in a required attribute, and ClientError for an unknown `__op__`.
        """
        failures: list[str] = []
        increments: dict[str, Add] = {}
        for name, value in data.items():
            if type(value) is Add or (type(value) is dict and "__op__" in value):
                increments[name] = self._increment(name, value, failures)
        plain = {name: value for name, value in data.items() if name not in increments} if increments else data
        changed = self._check(plain, source, failures)
        failures += [required_text(name, True) for name in self._never_null if name in data and data[name] is None]
        if failures:
            raise _refused(failures)
        return data | (changed or {}) | increments if changed or increments else data

    def message(self, data: dict[str, Any], *, source: str = "json") -> dict[str, Any]:
        """What is said about a record without being one: properties that are declared have their type, any others may be there or missing.

        Raises ValidationError with all failures.
        """
        failures: list[str] = []
        changed: dict[str, Any] = {}
        checkers = self._json if source == "json" else self._native
        for name, value in data.items():
            check = checkers.get(name)
            if check is not None:
                checked = check(value, name, failures, 0)
                if checked is not value:
                    changed[name] = checked
        if failures:
            raise _refused(failures)
        return data | changed if changed else data

    def blamed(self, data: dict[str, Any], source: str) -> dict[str, str]:
        """Failure of a record -> the property that it is about. Takes as long as the check that has found the failures."""
        checkers = self._json if source == "json" else self._native
        found: dict[str, str] = {}
        failures: list[str] = []
        for name, value in data.items():
            check = checkers.get(name)
            if check is not None or self._may_add(name, failures):
                (check or check_any)(value, name, failures, 0)
            if failures:
                found.update(dict.fromkeys(failures, str(name)))
                failures.clear()
        found.update((required_text(name, name in data), name) for name in self._never_null if data.get(name) is None)
        return found

    def require_all(self, record: dict[str, Any]) -> None:
        """Raise ValidationError unless a record whose values have been checked has all that a whole one needs, but for what has a default."""
        failures = [required_text(name, name in record) for name in self._required if record.get(name) is None]
        failures += self._null_failures(record)
        if failures:
            raise _refused(failures)

    def complete(self, record: dict[str, Any], *, is_new: bool) -> dict[str, Any]:
        """The record with the defaults of what a new one lacks, as a copy if it lacks any. One that replaces another is stored as it is given.

        Called where it is written, for only there it is known whether there is one. Raises ValidationError if something required is missing.
        """
        if not is_new:
            failures = [required_text(name, False) for name in self._required_later if name not in record]
            if failures:
                raise _refused(failures)
            return record
        missing = [name for name in self._defaults if name not in record]
        return record | {name: deepcopy(self._defaults[name]) for name in missing} if missing else record

    def merged(self, record: dict[str, Any], names: Iterable[str] | None = None) -> None:
        """Check the result of a merge in place: of the attributes in `names` (those that were incremented), or of all.

        Attributes that a PATCH did not touch need not satisfy a declaration that is younger than they are (spec: http §2.4).
        """
        failures: list[str] = []
        for name in tuple(record) if names is None else names:
            check: Checker = self._native.get(name, check_any)
            record[name] = check(record.get(name), name, failures, 0)
        if failures:
            raise _refused(failures)

    def stamp(self, record: dict[str, Any], now_ms: float, previous: dict[str, Any] | None) -> None:
        """Set the time attributes of `record` in place. `previous`: the stored record that this write replaces or changes; None = new."""
        if not self._times:
            return
        for created in self._created:
            if previous is None:
                record[created.name] = _time_value(created, now_ms)
            elif created.name in previous:
                record[created.name] = previous[created.name]
            else:  # older than the attribute: unknown
                record.pop(created.name, None)
        for updated in self._updated:
            record[updated.name] = _time_value(updated, now_ms)

    def expiry(self, record: dict[str, Any]) -> float | None:
        """When the record expires by its @expiresAt attribute, in ms since the epoch. None: it does not say, or is negative."""
        name = self._expires_at
        if name is None:
            return None
        value = record.get(name)
        if isinstance(value, datetime):
            value = ms_from_date(value)
        if type(value) is not int and type(value) is not float:
            return None
        return float(value) if value >= 0 else None

    def _check(self, data: dict[str, Any], source: str, failures: list[str]) -> dict[str, Any] | None:
        """The properties that are stored in another form than they came; None if there are none."""
        containers = [value for value in data.values() if type(value) is dict or type(value) is list]
        if containers and has_too_many_values(containers):
            failures.append(f"The record has more than {MAX_VALUES} values in its lists and objects")
            return None
        checkers = self._json if source == "json" else self._native
        changed = None
        for name, value in data.items():
            check = checkers.get(name)
            if check is None:
                if not self._may_add(name, failures):
                    continue
                check = check_any
            checked = check(value, name, failures, 0)
            if checked is not value:
                if changed is None:
                    changed = {}
                changed[name] = checked
        return changed

    def _may_add(self, name: object, failures: list[str]) -> bool:
        """Whether a record may hold an undeclared property of this name."""
        if type(name) is not str or not (name.isascii() or is_encodable(name)):
            check_name(name, None, failures)
            return False
        if self._sealed:
            failures.append(f"Property {printable(name)} is not allowed")
            return False
        if self._dynamic:  # the property becomes an attribute, with an index of that name
            if "`" in name or "/" in name:
                failures.append("Attribute names cannot include backticks or forward slashes")
                return False
            if not name or len(name.encode()) > MAX_ATTRIBUTE_NAME_BYTES:
                failures.append(
                    f"transaction aborted due to attribute name {printable(name)} being too long. "
                    f"Attribute names cannot be longer than {MAX_ATTRIBUTE_NAME_BYTES} bytes."
                    if name
                    else "Invalid attribute name: ''"
                )
                return False
        return True

    def _increment(self, name: str, value: Any, failures: list[str]) -> Add:
        if type(value) is dict:
            operation = value["__op__"]
            if operation != "add":
                shown_name = printable(operation) if isinstance(operation, str) else shown(operation)
                raise ClientError(f"Invalid CRDT operation {shown_name}", code="VALIDATION")
            value = value.get("value")
        else:
            value = value.value
        attribute = self._attributes.get(name)
        if attribute is None:
            self._may_add(name, failures)
        elif not attribute.stored or attribute.primary_key or attribute.elements or attribute.type not in _INCREMENTABLE:
            failures.append(f"Property {printable(name)} cannot be incremented")
        if value is None:
            failures.append(refusal(value, name, "a number"))
        amount = check_float(value, name, failures, 0)
        if attribute is not None and attribute.type in _INTEGERS and type(amount) is float and isfinite(amount) and not amount.is_integer():
            failures.append(refusal(amount, name, "an integer"))  # else a small fraction would vanish in a large sum
        return Add(amount)


def _refused(failures: list[str]) -> ValidationError:
    """All failures, up to MAX_FAILURES: a list of a million wrong elements is not reported in full."""
    more = len(failures) - MAX_FAILURES
    return ValidationError([*failures[:MAX_FAILURES], f"{more} more"] if more > 0 else failures)


def _time_value(attribute: Attribute, now_ms: float) -> object:
    """A time in the form that the attribute's type asks for (spec: schema-and-store §3)."""
    if attribute.type != "Date" and attribute.type != "String":
        return int(now_ms)
    moment = date_from_ms(now_ms)
    assert moment is not None
    return moment if attribute.type == "Date" else moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def has_too_many_values(containers: list[Any]) -> bool:
    """Whether lists and objects have more than MAX_VALUES values, those inside them included. What is nested too deep is another failure.

    >>> has_too_many_values([[1, 2, 3], {"a": [4]}]), has_too_many_values([[[0] * 100_000], [[0] * 100_000]])
    (False, True)
    """
    found = 0
    for _ in range(MAX_DEPTH + 1):
        inner: list[Any] = []
        for container in containers:
            found += len(container)
            if found > MAX_VALUES:
                return True
            members = container.values() if type(container) is dict else container
            inner += [member for member in members if type(member) is list or type(member) is dict]
        if not inner:
            break
        containers = inner
    return False
