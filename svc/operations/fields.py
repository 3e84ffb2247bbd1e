"""The fields of operation bodies: what is allowed, and what the caller reads when it is not (spec: operations §1.3, §1.5).

A row of an operation lists its `Field`s; `read_fields` turns a body into arguments under canonical names or raises one 400 that names every field
at fault, in field order. Fields no row knows are ignored: clients send such that other servers know.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from svc.errors import ClientError, ValidationError
from svc.store.values.conversion import is_encodable

MAX_NAME = 250  # characters

_NAME = re.compile(r"[\x20-\x2E|\x30-\x5F|\x61-\x7E]*")
_SEPARATOR = re.compile(r"[`/]")

Check = Callable[[Any, "Field"], str | None]
"""What is wrong with a value: the predicate of the sentence (`must be a string`), or None."""


@dataclass(frozen=True, slots=True)
class Field:
    """One field of a body. `kind` is a key of KINDS.

    `shown_as`: the name in the message that it is missing, where that is another than the field's. `missing`: the whole text when a required field is absent,
    default `'<name>' is required`. `low`, `high`: of numbers, both allowed. `check`: a further test, after that of the kind.
    `nullable`: null is a value that can be sent, not the same as nothing. `preferred`: the alias that wins over the name itself.
    `secret`: never in a log, a job record or an example.
    """

    name: str
    kind: str
    sentence: str
    required: bool = False
    default: Any = None
    aliases: tuple[str, ...] = ()
    choices: tuple[str, ...] = ()
    low: float | None = None
    high: float | None = None
    shown_as: str = ""
    missing: str = ""
    secret: bool = False
    check: Check | None = None
    nullable: bool = False
    preferred: str = ""

    @property
    def label(self) -> str:
        return self.shown_as or self.name

    @property
    def names(self) -> tuple[str, ...]:
        """All names it may be sent under, the winning one first."""
        if self.preferred:
            return (self.preferred, *[name for name in (self.name, *self.aliases) if name != self.preferred])
        return (self.name, *self.aliases)

    def but(self, **changes: Any) -> Field:
        """The same field with some things changed, for one operation."""
        return replace(self, **changes)


# --- kinds: each returns what is wrong, or None ---------------------------------------------------------------------------------------


def _text(value: Any, field: Field) -> str | None:
    if not isinstance(value, str):
        return "must be a string"
    return _not_unicode(value) if value else "is not allowed to be empty"


def _any_text(value: Any, field: Field) -> str | None:
    return _not_unicode(value) if isinstance(value, str) else "must be a string"


def _not_unicode(text: str) -> str | None:
    """A lone surrogate, which JSON can write but the store cannot keep."""
    return None if text.isascii() or is_encodable(text) else "must be a well-formed Unicode string"


def _name(value: Any, field: Field) -> str | None:
    if isinstance(value, str) and 0 < len(value) <= MAX_NAME and _NAME.fullmatch(value):
        return None
    wrong = _text(value, field)
    if wrong is not None:
        return wrong
    if len(value) > MAX_NAME:
        return f"length must be less than or equal to {MAX_NAME} characters long"
    if _SEPARATOR.search(value):
        return "names cannot include backticks or forward slashes"
    return "names can only include printable ASCII characters"


_NUMERIC = re.compile(r"[+-]?(\d{1,30}(\.\d{0,30})?|\.\d{1,30})([eE][+-]?\d{1,3})?", re.ASCII)
_NUMBERS = frozenset(("number", "integer"))


def numeric(value: Any) -> Any:
    """The number that a string stands for, as untyped programs and forms send it; anything else as it is."""
    if not isinstance(value, str) or _NUMERIC.fullmatch(value.strip()) is None:
        return value
    text = value.strip()
    return int(text) if text.lstrip("+-").isdecimal() else float(text)


def _number(value: Any, field: Field) -> str | None:
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        return "must be a number"
    if field.low is not None and value < field.low:
        return f"must be greater than or equal to {field.low:g}"
    if field.high is not None and value > field.high:
        return f"must be less than or equal to {field.high:g}"
    return None


def _integer(value: Any, field: Field) -> str | None:
    wrong = _number(value, field)
    return wrong or (None if float(value).is_integer() else "must be an integer")


def _bool(value: Any, field: Field) -> str | None:
    return None if isinstance(value, bool) else "must be a boolean"


def _list(value: Any, field: Field) -> str | None:
    return None if isinstance(value, list) else "must be an array"


def _filled_list(value: Any, field: Field) -> str | None:
    return _list(value, field) or (None if value else "must contain at least 1 item")


def _texts(value: Any, field: Field) -> str | None:
    if not isinstance(value, list):
        return "must be an array"
    return None if all(isinstance(item, str) for item in value) else "must be an array of strings"


def _objects(value: Any, field: Field) -> str | None:
    if not isinstance(value, list):
        return "must be an array"
    return None if _kinds(value) <= {dict} else "must be an array of objects"


def _object(value: Any, field: Field) -> str | None:
    return None if isinstance(value, dict) else "must be an object"


def is_key(value: Any) -> bool:
    """Whether a value has the form of a primary key: text, a finite number, or a list of these."""
    if isinstance(value, list):
        return bool(value) and all(not isinstance(item, list) and is_key(item) for item in value)
    if isinstance(value, float):
        return math.isfinite(value)
    return isinstance(value, str | int) and not isinstance(value, bool)


def _keys(value: Any, field: Field) -> str | None:
    if not isinstance(value, list):
        return "must be an array"
    if _kinds(value) <= {str, int}:
        return None
    return None if all(map(is_key, value)) else "must be strings or numbers"


def _kinds(items: list[Any]) -> set[type]:
    """The types of all items: one `map` costs a twentieth of a call for each, and there may be a million."""
    return set(map(type, items))


def _choice(value: Any, field: Field) -> str | None:
    return None if isinstance(value, str) and value in field.choices else f"must be one of [{', '.join(field.choices)}]"


def _anything(value: Any, field: Field) -> str | None:
    return None


KINDS: Mapping[str, Check] = {
    "string": _text,
    "any string": _any_text,  # may be empty
    "name": _name,  # of a database, a table, an attribute
    "number": _number,
    "integer": _integer,
    "bool": _bool,
    "list": _list,
    "non-empty list": _filled_list,
    "strings": _texts,
    "objects": _objects,
    "object": _object,
    "keys": _keys,
    "choice": _choice,
    "any": _anything,
}


# --- bodies -> arguments ----------------------------------------------------------------------------------------------------------------


def given(body: Mapping[str, Any], field: Field) -> Any:
    """The value of a field under the first of its names in the body; None if it is missing or null."""
    for name in field.names:
        value = body.get(name)
        if value is not None:
            return value
    return None


def named_by_text(body: Mapping[str, Any], fields: Iterable[Field]) -> Mapping[str, Any]:
    """The body of an operation on a table with the names of this and its database as strings, where numbers were sent. The body itself if none were."""
    numbers = [name for name in _NAMES if type(body.get(name)) is int]
    if not numbers or not any(field.name == TABLE.name for field in fields):
        return body
    return {**body, **{name: str(body[name]) for name in numbers}}


def fault_of(value: Any, field: Field) -> str | None:
    """The whole sentence about a value that the field does not take."""
    wrong = KINDS[field.kind](value, field)
    if wrong is None and field.check is not None:
        wrong = field.check(value, field)
    return None if wrong is None else f"'{field.label}' {wrong}"


def read_fields(body: Mapping[str, Any], fields: Iterable[Field]) -> dict[str, Any]:
    """The arguments by canonical name; those not given have their default. Raises ValidationError with a sentence per field at fault."""
    reading = _readings.get(id(fields))
    if reading is None or reading.fields is not fields:
        reading = _FieldLookup(tuple(fields))
        if reading.fields is fields:  # of a row, which keeps them as long as this does: their id is not reused
            _readings[id(fields)] = reading
    arguments = reading.defaults.copy()
    faults: dict[int, str] = {}
    by_name = reading.by_name
    # Most fields are not given: looking at what is there takes half the time of looking for each.
    for name, value in body.items():
        if value is None or name not in by_name:
            continue
        for at, field, check, better in by_name[name]:
            if better and any(body.get(other) is not None for other in better):
                continue
            if field.kind in _NUMBERS:
                value = numeric(value)
            wrong = check(value, field)
            if wrong is None and field.check is not None:
                wrong = field.check(value, field)
            if wrong is not None:
                faults[at] = f"'{name}' {wrong}"  # by the name that was sent
            arguments[field.name] = value
    for at, field in reading.required:
        if arguments[field.name] is None and not (field.nullable and any(name in body for name in field.names)):
            faults[at] = field.missing or f"'{field.label}' is required"
    if faults:
        raise ValidationError([faults[at] for at in sorted(faults)])
    return arguments


class _FieldLookup:
    """The fields of a row, as `read_fields` looks for them. `by_name`: name -> place, field, check of its kind, names that win over this one."""

    __slots__ = ("by_name", "defaults", "fields", "required")

    def __init__(self, fields: tuple[Field, ...]) -> None:
        self.fields = fields
        self.defaults = {field.name: field.default for field in fields}
        self.required = [(at, field) for at, field in enumerate(fields) if field.required]
        self.by_name: dict[str, list[tuple[int, Field, Check, tuple[str, ...]]]] = {}
        for at, field in enumerate(fields):
            for rank, name in enumerate(field.names):
                self.by_name.setdefault(name, []).append((at, field, KINDS[field.kind], field.names[:rank]))


_readings: dict[int, _FieldLookup] = {}


# --- fields that many operations have ------------------------------------------------------------------------------------------------------

DATABASE = Field("database", "name", "Database; default `data`.", default="data", aliases=("schema",))
TABLE = Field("table", "name", "Table.", required=True)
_NAMES = (*DATABASE.names, *TABLE.names)
GET_ATTRIBUTES = Field(
    "get_attributes",
    "non-empty list",
    'Attributes to return: names, `"*"`, or `{"name": "owner", "select": ["name"]}` for related records.',
    aliases=("select",),
    preferred="select",
)
REPLICATED = Field("replicated", "bool", "Also on the other nodes of the cluster.", default=False)
IMPERSONATE = Field("impersonate", "object", "Run with the rights of another user or role; super users only.")


def attribute_name_fault(name: str) -> str | None:
    """What is wrong with the name of an attribute that a record brings (spec: operations §1.5, §3.1 rule 7); None: nothing."""
    if name in ("", "null", "undefined"):
        return f"Invalid attribute name: '{name}'"
    if "`" in name or "/" in name:
        return "Attribute names cannot include backticks or forward slashes"
    if len(name) > MAX_NAME // 4 and len(name.encode(errors="replace")) > MAX_NAME:
        return f"transaction aborted due to attribute name {name} being too long. Attribute names cannot be longer than {MAX_NAME} bytes."
    return None


def bad_request(*sentences: str) -> ClientError:
    """A 400 for what validation of the fields alone does not find."""
    return ValidationError(sentences)
