"""Checkers: functions that take the value of one attribute, refuse it, or return what to store (spec: schema-and-store §5).

A checker takes (value, path, failures, depth), returns the value to store and appends a sentence to `failures` for what it refuses, so
that all failures of a record are found in one pass. A value that is stored as it came is returned as the same object, lists and objects
included: nothing is copied unless something in it changes.

`path` is the attribute's name, or for nested values a pair (path around it, name or index), which becomes text only in a message.
The first lines of each checker are for the value that needs nothing; they cost about 0.1 us.
"""

from __future__ import annotations

import binascii
import operator
from collections.abc import Callable, Set
from datetime import datetime
from math import isfinite
from typing import Any

from svc.errors import ClientError
from svc.store.blobs import Blob, BlobDescription, create_blob, is_stream, maybe_description
from svc.store.schema import Attribute, Enumeration, Structure, TableDefinition
from svc.store.values.conversion import (
    INT_MAX,
    INT_MIN,
    LONG_MAX,
    MAX_BITS,
    MAX_DIGITS,
    check_key,
    is_encodable,
    members,
    printable,
    refusal,
    shown,
    to_date,
)

MAX_DEPTH = 64  # levels of objects and lists inside an attribute

Path = str | tuple["Path", str | int]
Checker = Callable[[Any, Any, list[str], int], Any]

_SMALL_LOW, _SMALL_HIGH = -(2**63), 2**63
_BITS = f"an integer of at most {MAX_BITS} bits"


def path_text(path: Path) -> str:
    """`a.b[0]` for ((("a"), "b"), 0).

    >>> path_text((("a", "b"), 0))
    'a.b[0]'
    """
    parts: list[str] = []
    while type(path) is tuple:
        path, step = path
        parts.append(f"[{step}]" if type(step) is int else f".{step}")
    return str(path) + "".join(reversed(parts))


def _refuse(failures: list[str], value: object, path: Path, expected: str) -> Any:
    failures.append(refusal(value, path_text(path), expected))
    return value


# --- scalars -------------------------------------------------------------------------------------------------------------------------


def _check_string(value: Any, path: Path, failures: list[str], depth: int) -> Any:
    if type(value) is str:
        if value.isascii() or is_encodable(value):
            return value
        return _refuse(failures, value, path, "a string without unpaired surrogates")
    if value is None:
        return None
    if isinstance(value, str):
        return _check_string(str.__str__(value), path, failures, depth)
    return _refuse(failures, value, path, "a string")


def _enum_checker(enum: Enumeration) -> Checker:
    values, expected = frozenset(enum.values), members(enum)

    def check(value: Any, path: Path, failures: list[str], depth: int) -> Any:
        if value is None or (type(value) is str and value in values):
            return value
        if type(value) is not str and isinstance(value, str):
            return check(str.__str__(value), path, failures, depth)
        return _refuse(failures, value, path, expected)

    return check


def _integer_checker(low: int, high: int) -> Checker:
    expected = f"an integer from {low} to {high}"

    def check(value: Any, path: Path, failures: list[str], depth: int) -> Any:
        if type(value) is int:
            if low <= value <= high:
                return value
        elif value is None:
            return None
        elif isinstance(value, float):
            if value.is_integer() and low <= value <= high:
                return int(value)
        elif isinstance(value, int) and type(value) is not bool:
            return check(int(value), path, failures, depth)
        return _refuse(failures, value, path, expected)

    return check


def check_float(value: Any, path: Path, failures: list[str], depth: int) -> Any:
    kind = type(value)
    if kind is float:
        if value.is_integer():
            return int(value) if -LONG_MAX <= value <= LONG_MAX else value
        if value - value == 0.0:
            return value
        return _refuse(failures, value, path, "a finite number")
    if kind is int:
        if _SMALL_LOW < value < _SMALL_HIGH or value.bit_length() <= MAX_BITS:
            return value
        return _refuse(failures, value, path, f"a number of at most {MAX_BITS} bits")
    if value is None:
        return None
    if isinstance(value, float):
        return check_float(float(value), path, failures, depth)
    if isinstance(value, int) and kind is not bool:
        return check_float(int(value), path, failures, depth)
    return _refuse(failures, value, path, "a number")


def _check_bigint(value: Any, path: Path, failures: list[str], depth: int) -> Any:
    if value is None:
        return None
    number = value
    if isinstance(value, str):
        digits = value.removeprefix("-")
        number = int(value) if len(digits) <= MAX_DIGITS and digits.isascii() and digits.isdigit() else None
    elif isinstance(value, float):
        number = int(value) if value.is_integer() else None
    elif type(value) is bool or not isinstance(value, int):
        number = None
    elif type(value) is not int:
        number = int(value)
    if number is None or number.bit_length() > MAX_BITS:
        return _refuse(failures, value, path, _BITS)
    return number


def _check_boolean(value: Any, path: Path, failures: list[str], depth: int) -> Any:
    if value is True or value is False or value is None:
        return value
    return _refuse(failures, value, path, "a boolean")


def _check_date(value: Any, path: Path, failures: list[str], depth: int) -> Any:
    if value is None:
        return None
    converted = to_date(value)
    if converted is None:
        return _refuse(failures, value, path, "a date: ISO 8601 string or milliseconds since the epoch, in the years 1 to 9999")
    return converted


def _from_base64(text: str) -> bytes:
    """Raises ValueError. The padding is complete or not there; the decoder itself would take more than there should be."""
    digits = text.rstrip("=")
    padded = digits + "=" * (-len(digits) % 4)
    if len(text) not in (len(digits), len(padded)):
        raise ValueError
    return binascii.a2b_base64(padded, strict_mode=True)


def _bytes_checker(source: str) -> Checker:
    def check(value: Any, path: Path, failures: list[str], depth: int) -> Any:
        if value is None or type(value) is bytes:
            return value
        if isinstance(value, bytes | bytearray | memoryview):
            return bytes(value)
        if isinstance(value, str):
            try:
                return _from_base64(value) if source == "json" else value.encode()
            except ValueError:  # UnicodeEncodeError, binascii.Error
                pass
        return _refuse(failures, value, path, "a base64 string" if source == "json" else "bytes")

    return check


def _check_blob(value: Any, path: Path, failures: list[str], depth: int) -> Any:
    if value is None or type(value) is Blob:
        return value
    if type(value) is BlobDescription:  # checked once more
        return value
    if isinstance(value, bytes | bytearray | memoryview):
        return _bare_blob(bytes(value))
    if is_stream(value):
        return create_blob(value)
    if isinstance(value, str):
        return _bare_blob(str.__str__(value)) if is_encodable(value) else _check_string(value, path, failures, depth)
    if isinstance(value, dict):
        description = maybe_description(value, lambda: printable(path_text(path)), certain=False)
        if description is not None:
            return description
    return _refuse(failures, value, path, "bytes or a string")


def _bare_blob(content: bytes | str) -> Blob:
    blob = create_blob(content)
    blob.is_bare = True
    return blob


# --- values of no declared type ------------------------------------------------------------------------------------------------------


def check_any(value: Any, path: Path, failures: list[str], depth: int) -> Any:
    kind = type(value)
    if kind is str:
        if value.isascii() or is_encodable(value):
            return value
        return _refuse(failures, value, path, "a string without unpaired surrogates")
    if kind is int:
        if _SMALL_LOW < value < _SMALL_HIGH or value.bit_length() <= MAX_BITS:
            return value
        return _refuse(failures, value, path, _BITS)
    if value is None or kind is bool:
        return value
    if kind is float:
        return check_float(value, path, failures, depth)
    if kind is dict:
        return _check_any_object(value, path, failures, depth)
    if kind is list:
        return _check_any_list(value, path, failures, depth)
    return _check_any_other(value, path, failures, depth)


def _check_any_list(value: list[Any], path: Path, failures: list[str], depth: int) -> Any:
    if depth >= MAX_DEPTH:
        return _too_deep(value, path, failures)
    if _is_plain(value):
        return value
    result = value
    for index, element in enumerate(value):
        checked = check_any(element, (path, index), failures, depth + 1)
        if checked is not element:
            if result is value:
                result = value.copy()
            result[index] = checked
    return result


def _check_any_object(value: dict[Any, Any], path: Path, failures: list[str], depth: int) -> Any:
    if depth >= MAX_DEPTH:
        return _too_deep(value, path, failures)
    if len(value) == 3 and "description" in value:
        description = maybe_description(value, lambda: printable(path_text(path)), certain=True)
        if description is not None:
            return description
    changed: dict[Any, Any] | None = None
    for name, member in value.items():
        if type(name) is not str or not (name.isascii() or is_encodable(name)):
            check_name(name, path, failures)
        checked = check_any(member, (path, name), failures, depth + 1)
        if checked is not member:
            if changed is None:
                changed = {}
            changed[name] = checked
    return value if changed is None else value | changed


def _check_any_other(value: Any, path: Path, failures: list[str], depth: int) -> Any:
    """What only native sources have."""
    if type(value) is bytes or type(value) is Blob or type(value) is BlobDescription:
        return value
    if isinstance(value, datetime):
        return _check_date(value, path, failures, depth)
    if isinstance(value, set | frozenset):
        return _check_any_set(value, path, failures, depth)
    for base, plain in _PLAIN_OF:
        if isinstance(value, base):
            return check_any(plain(value), path, failures, depth)
    return _refuse(failures, value, path, "a value that can be stored")


def _check_any_set(value: Set[Any], path: Path, failures: list[str], depth: int) -> Any:
    """A set stays one: CBOR and MessagePack have a type for it. Its elements may be what a record's key in an object may be."""
    if depth >= MAX_DEPTH:
        return _too_deep(value, path, failures)
    elements = list(value)
    checked = [_check_element(element, path, failures, depth + 1) for element in elements]
    return value if type(value) is set and all(map(operator.is_, checked, elements)) else set(checked)


def _check_element(value: Any, path: Path, failures: list[str], depth: int) -> Any:
    """An element of a set, or of a list in one: hashable, so lists are tuples."""
    if isinstance(value, tuple):
        if depth >= MAX_DEPTH:
            return _too_deep(value, path, failures)
        checked = [_check_element(element, path, failures, depth + 1) for element in value]
        return value if type(value) is tuple and all(map(operator.is_, checked, value)) else tuple(checked)
    if isinstance(value, frozenset):
        elements = _check_any_set(value, path, failures, depth)
        return value if elements == value and type(value) is frozenset else frozenset(elements)
    if isinstance(value, Blob):
        _refuse(failures, value, path, "a set without blobs")
        return None
    return check_any(value, path, failures, depth)


# Subclasses and relatives of the types that records have.
_PLAIN_OF: tuple[tuple[type | tuple[type, ...], Callable[[Any], Any]], ...] = (
    (str, str.__str__),
    (int, int),
    (float, float),
    (dict, dict),
    ((list, tuple), list),
    ((bytes, bytearray, memoryview), bytes),
)


def _is_plain(value: list[Any]) -> bool:
    """Whether nothing has to be done about a list: one pass in C for the common lists of one kind. False says nothing."""
    kinds = set(map(type, value))
    if len(kinds) != 1:
        return not kinds
    kind: type = kinds.pop()
    if kind is str:
        return "".join(value).isascii()
    if kind is float:
        return isfinite(sum(value)) and not any(map(float.is_integer, value))
    if kind is int:
        return bool(min(value) > _SMALL_LOW and max(value) < _SMALL_HIGH)
    return False


def _too_deep(value: object, path: Path, failures: list[str]) -> Any:
    while type(path) is tuple:
        path = path[0]
    failures.append(f"Property {printable(str(path))} is nested more than {MAX_DEPTH} levels deep")
    return value


def check_name(name: object, path: Path | None, failures: list[str]) -> None:
    """Names are text; inside an attribute (`path`) of a native source also integers of 64 bits, which JSON shows as text (spec: http §7.2)."""
    inside = ""
    if path is not None:
        if type(name) is int and _SMALL_LOW <= name < _SMALL_HIGH:
            return
        inside = f" in {printable(path_text(path))}"
    if not isinstance(name, str):
        failures.append(f"Property name {shown(name)}{inside} must be a string")
    elif not is_encodable(name):
        failures.append(f"Property name {shown(name)}{inside} must be a string without unpaired surrogates")
    else:  # a subclass of str, which would not be found again
        failures.append(f"Property name {shown(name)}{inside} must be a plain string")


# --- lists and structures ------------------------------------------------------------------------------------------------------------


def _list_checker(check_element: Checker, quick: frozenset[type], element_required: bool) -> Checker:
    """`quick`: Python types of which `check_element` takes every plain value as it is, so that the elements of such a list need not be checked one by one."""

    def check(value: Any, path: Path, failures: list[str], depth: int) -> Any:
        if type(value) is not list:
            if value is None:
                return None
            if not isinstance(value, list | tuple):
                return _refuse(failures, value, path, "a list")
            return check(list(value), path, failures, depth)
        if depth >= MAX_DEPTH:
            return _too_deep(value, path, failures)
        if value and type(value[0]) in quick and _is_plain(value):
            return value
        result = value
        for index, element in enumerate(value):
            if element is None and element_required:
                failures.append(f"Property {printable(path_text((path, index)))} is required and cannot be null")
                continue
            checked = check_element(element, (path, index), failures, depth + 1)
            if checked is not element:
                if result is value:
                    result = value.copy()
                result[index] = checked
        return result

    return check


_QUICK: dict[str, frozenset[type]] = {"ID": frozenset((str,)), "String": frozenset((str,)), "Float": frozenset((float, int))}


def _refuse_relationship(value: Any, path: Path, failures: list[str], depth: int) -> Any:
    failures.append(f"Property {printable(path_text(path))} is a relationship and cannot be given a value")
    return value


def _refuse_computed(value: Any, path: Path, failures: list[str], depth: int) -> Any:
    failures.append(f"Property {printable(path_text(path))} is computed and cannot be given a value")
    return value


class _StructureChecker:
    """Checks nested objects of one type. Its members are compiled after it exists, for a type may contain itself."""

    __slots__ = ("checkers", "required", "sealed")

    def __init__(self, structure: Structure) -> None:
        self.sealed = structure.sealed
        self.required = tuple(attribute.name for attribute in structure.attributes if attribute.required and attribute.stored)
        self.checkers: dict[str, Checker] = {}

    def __call__(self, value: Any, path: Path, failures: list[str], depth: int) -> Any:
        if type(value) is not dict:
            if value is None:
                return None
            if not isinstance(value, dict):
                return _refuse(failures, value, path, "an object")
            value = dict(value)
        if depth >= MAX_DEPTH:
            return _too_deep(value, path, failures)
        changed: dict[str, Any] = {}
        for name, member in value.items():
            check = self.checkers.get(name)
            if check is None:
                if self.sealed:
                    failures.append(f"Property {printable(path_text((path, name)))} is not allowed")
                    continue
                if type(name) is not str or not is_encodable(name):
                    check_name(name, path, failures)
                check = check_any
            checked = check(member, (path, name), failures, depth + 1)
            if checked is not member:
                changed[name] = checked
        failures += [required_text(path_text((path, name)), name in value) for name in self.required if value.get(name) is None]
        return value | changed if changed else value


def required_text(path: str, is_null: bool) -> str:
    return f"Property {printable(path)} is required" + (" and cannot be null" if is_null else "")


def compile_checkers(definition: TableDefinition, source: str) -> dict[str, Checker]:
    """Attribute name -> checker, for one kind of source."""
    scalars: dict[str, Checker] = {
        "ID": _check_string,
        "String": _check_string,
        "Int": _integer_checker(INT_MIN, INT_MAX),
        "Long": _integer_checker(-LONG_MAX, LONG_MAX),
        "Float": check_float,
        "BigInt": _check_bigint,
        "Boolean": _check_boolean,
        "Date": _check_date,
        "Bytes": _bytes_checker(source),
        "Blob": _check_blob,
        "Any": check_any,
    }
    structures = {structure.name: _StructureChecker(structure) for structure in definition.structures}

    def checker_of(attribute: Attribute) -> Checker:
        if attribute.relationship is not None:
            return _refuse_relationship
        if attribute.computed_from is not None:
            return _refuse_computed
        check: Checker = scalars.get(attribute.type) or structures.get(attribute.type) or check_any
        if attribute.enum is not None:
            check = _enum_checker(attribute.enum)
            return _list_checker(check, frozenset(), attribute.element_required) if attribute.elements else check
        if attribute.elements:
            return _list_checker(check, _QUICK.get(attribute.type, frozenset()), attribute.element_required)
        return check

    for structure in definition.structures:
        structures[structure.name].checkers.update({attribute.name: checker_of(attribute) for attribute in structure.attributes})
    checkers = {attribute.name: checker_of(attribute) for attribute in definition.attributes}
    checkers[definition.primary_key] = _key_checker(definition)
    return checkers


def _key_checker(definition: TableDefinition) -> Checker:
    """The key in the record. Null means that there is none yet."""

    def check(value: Any, path: Path, failures: list[str], depth: int) -> Any:
        if value is None:
            return None
        try:
            return check_key(definition, value)
        except ClientError as error:
            failures.append(error.message)
            return value

    attribute = definition.attribute(definition.primary_key)
    if attribute is not None and attribute.enum is not None:
        return _enum_checker(attribute.enum)
    if not definition.split_segments and attribute is not None and attribute.type in ("ID", "String"):
        return _check_string  # says and does the same, in less time
    return check
