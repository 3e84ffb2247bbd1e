"""Operations as forms: the fields of a row as controls, what was entered as a body, and what of a body a browser may keep. Pure.

What is entered is text. `kind`s that are text stay it; numbers, truth values, lists and objects become what the text says in JSON, so a body that is made
by a form is the body that a program sends.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from svc.content.json_type import decode_json, encode_json
from svc.errors import BadBody, ClientError
from svc.logs.redact import is_secret, without_credentials
from svc.operations.fields import Field, numeric
from svc.operations.operation import Operation
from svc.pages.statement import line_and_column

MOST_KEPT = 20_000  # characters of a body that a browser keeps
MOST_TEXT = 1 << 20  # characters of a body that is entered

_TEXT_KINDS = frozenset(("string", "any string", "name", "choice"))
_NUMBERS = frozenset(("number", "integer"))
_LISTS = frozenset(("list", "non-empty list", "strings", "objects", "keys"))
_EXAMPLES = {"object": "{…}", "strings": '["…"]', "objects": "[{…}]", "keys": '["…", 1]', "list": "[…]", "non-empty list": "[…]"}
_TYPES = {"any": "JSON, or text", "any string": "text", "string": "text", "bool": "true or false", "keys": "list of keys"} | {
    "strings": "list of texts",
    "objects": "list of objects",
    "non-empty list": "list",
}

_DESTROYS = re.compile(
    r"(drop|delete|purge|remove|revoke|restore)_|restart|(delete|set_configuration|cleanup_orphan_blobs|cluster_delete_routes)$"
)
"""Names of operations that take something away, or that end something: they are confirmed."""
_MESSAGE_PLACE = re.compile(r"\(byte (\d+)\)$|at byte (\d+)$")


@dataclass(slots=True)
class Control:
    """One field of a form. `tag`: "input", "secret" (a password), "area" or "choice". `value`: what is entered. `choices`: (value, label). `type`: what it
    takes, in words. `help`: its sentence. `list`: the id of names that are offered, "" none. `fault`: what is wrong with it."""

    name: str
    tag: str
    value: str
    type: str
    help: str
    required: bool
    choices: tuple[tuple[str, str], ...] = ()
    placeholder: str = ""
    list: str = ""
    fault: str = ""
    is_masked: bool = False


class TextFault(BadBody):
    """A text that is no JSON. `line`, `column`: counted from 1; `at`: characters from 0. `name`: of the field, "" for the whole body."""

    def __init__(self, what: str, text: str, at: int, name: str = "") -> None:
        self.at = at
        self.line, self.column = line_and_column(text, at)
        self.name = name
        subject = f"'{name}'" if name else "The body"
        super().__init__(f"{subject} is not JSON: {what} (line {self.line}, column {self.column})")


def destroys(row: Operation) -> bool:
    """Whether an operation takes something away or ends something, so that it is to be confirmed.

    >>> from svc.operations.registry import by_name
    >>> [destroys(by_name()[name]) for name in ("drop_table", "delete", "restart_service", "set_configuration", "describe_table", "insert")]
    [True, True, True, True, False, False]
    """
    return any(_DESTROYS.match(name) for name in row.names)


def sends_file(row: Operation) -> bool:
    """Whether its answer is a file.

    >>> from svc.operations.registry import by_name
    >>> sends_file(by_name()["get_backup"])
    True
    """
    return row.name in ("get_backup", "get_deployment_payload")


# --- a row as a form --------------------------------------------------------------------------------------------------------------------


def controls_of(row: Operation, entered: Mapping[str, str]) -> list[Control]:
    """`entered`: text by the name of a field, or one of its other names. Secrets are never filled in."""
    return [_control(field, next((entered[name] for name in field.names if entered.get(name)), "")) for field in row.fields]


def _control(field: Field, value: str) -> Control:
    kind = field.kind
    made = Control(field.name, "input", value, _TYPES.get(kind, kind), plain(field.sentence), field.required)
    if field.default is not None:
        made.placeholder = field.default if isinstance(field.default, str) else encode_json(field.default).decode()
    if field.secret:
        made.value, made.is_masked = "", True
        made.tag = "area" if "PEM" in field.sentence or kind == "object" else "secret"
    elif kind == "bool":
        made.tag, made.choices = "choice", _choices(("true", "false"), made.placeholder)
    elif kind == "choice":
        made.tag, made.choices = "choice", _choices(field.choices, made.placeholder)
    elif kind in _EXAMPLES or kind == "any string" or field.name == "sql":
        made.tag = "area"
        made.placeholder = made.placeholder or _EXAMPLES.get(kind, "")
    elif field.name in ("database", "table", "attribute"):
        made.list = f"names-{field.name}"
    return made


def _choices(values: tuple[str, ...], default: str) -> tuple[tuple[str, str], ...]:
    return (("", f"default: {default}" if default else "not given"), *((value, value) for value in values))


def plain(markdown: str) -> str:
    """A sentence without the marks of Markdown."""
    return markdown.replace("`", "").replace("**", "")


# --- what was entered as a body ---------------------------------------------------------------------------------------------------------


def body_of(row: Operation, entered: Mapping[str, str]) -> dict[str, Any]:
    """The body; what is empty is left out. Raises TextFault for a list or an object that is no JSON."""
    body: dict[str, Any] = {"operation": row.name}
    for field in row.fields:
        text = entered.get(field.name, "").replace("\r\n", "\n")
        if text:
            body[field.name] = _value(field, text)
    return body


def _value(field: Field, text: str) -> Any:
    kind = field.kind
    if kind in _TEXT_KINDS or (field.secret and field.name == "password"):
        return text
    if kind in _NUMBERS:
        return numeric(text)
    if kind == "bool":
        return {"true": True, "false": False}.get(text, text)
    if kind == "any":
        try:
            return read_json(text)
        except TextFault:
            if not field.secret and text.lstrip()[:1] in ("{", "[", '"'):
                raise
            return text
    return read_json(text, field.name)


def read_json(text: str, name: str = "") -> Any:
    """Raises TextFault."""
    try:
        return decode_json(text.encode())
    except UnicodeEncodeError as error:
        raise TextFault("a character is missing", text, error.start, name) from None
    except BadBody as fault:
        what, at = _fault_of(text, fault)
        raise TextFault(what, text, at, name) from None


def _fault_of(text: str, fault: BadBody) -> tuple[str, int]:
    """What is wrong, and the character at which it is. The decoder of bodies knows bytes; that of Python knows characters, and says more."""
    try:
        json.loads(text)
    except json.JSONDecodeError as error:
        return error.msg[:1].lower() + error.msg[1:], error.pos
    except (ValueError, RecursionError):
        pass
    what = fault.message.removeprefix("Invalid JSON: ")
    found = _MESSAGE_PLACE.search(what)
    if found is None:
        return what, 0
    offset = int(found[1] or found[2])
    return what[: found.start()].rstrip(), len(text.encode()[:offset].decode(errors="ignore"))


def read_body(text: str) -> dict[str, Any]:
    """A whole body. Raises TextFault, and ClientError for one that is no object."""
    if len(text) > MOST_TEXT:
        raise ClientError(f"A body that is entered here has at most {MOST_TEXT:,} characters", 413)
    if not text.strip():
        raise ClientError("Enter a body: an object with 'operation' and its fields", code="BAD_BODY")
    body = read_json(text)
    if not isinstance(body, dict):
        raise ClientError("A body is an object with 'operation' and its fields", code="BAD_BODY")
    return body


# --- a body as text ---------------------------------------------------------------------------------------------------------------------


def entered_of(row: Operation, body: Mapping[str, Any]) -> dict[str, str]:
    """The text of each field that the form has."""
    found = {}
    for field in row.fields:
        value = next((body[name] for name in field.names if body.get(name) is not None), None)
        if value is not None:
            found[field.name] = _text(field, value)
    return found


def _text(field: Field, value: Any) -> str:
    if isinstance(value, str) and (field.kind in _TEXT_KINDS or (field.kind == "any" and _stays(value))):
        return value
    return pretty(value)


def _stays(text: str) -> bool:
    """Whether a text is read as itself again."""
    try:
        read_json(text)
    except TextFault:
        return text.lstrip()[:1] not in ("{", "[", '"')
    return False


def others_of(row: Operation, body: Mapping[str, Any]) -> list[str]:
    """Names in a body for which the form has no field."""
    known = {name for field in row.fields for name in field.names}
    return [name for name in body if name != "operation" and name not in known]


def pretty(value: Any) -> str:
    """As JSON for people: small things in one line."""
    line = json.dumps(value, ensure_ascii=False, default=str)
    return line if len(line) <= 60 and "{" not in line[1:] else json.dumps(value, ensure_ascii=False, indent=2, default=str)


def without_secrets(body: Mapping[str, Any], row: Operation) -> dict[str, Any]:
    """A body without what nobody is to read later: fields that are secret by their row or by their name, at any depth, and credentials in addresses.

    >>> from svc.operations.registry import by_name
    >>> without_secrets({"operation": "add_user", "username": "ann", "password": "x", "more": [{"apiKey": 1, "a": "http://u:p@h/"}]}, by_name()["add_user"])
    {'operation': 'add_user', 'username': 'ann', 'more': [{'a': 'http://***@h/'}]}
    """
    secrets = row.secrets
    return {name: _without(value) for name, value in body.items() if name not in secrets and not is_secret(name)}


def _without(value: Any) -> Any:
    if isinstance(value, str):
        return without_credentials(value)
    if isinstance(value, dict):
        return {name: _without(inner) for name, inner in value.items() if not is_secret(name)}
    return [_without(inner) for inner in value] if isinstance(value, list) else value


def kept_body(body: Mapping[str, Any], row: Operation) -> str:
    """The text that a browser may keep; "" for one that is too long to be kept."""
    text = pretty(without_secrets(body, row))
    return text if len(text) <= MOST_KEPT else ""


_WORD = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def kept_statement(text: str, parameters: str) -> tuple[str, str] | None:
    """(statement, parameters) that a browser may keep; None for what names something secret, or is too long.

    >>> kept_statement("SELECT * FROM plant WHERE id = ?", "[1]"), kept_statement("UPDATE shop.person SET password = 'x'", "")
    (('SELECT * FROM plant WHERE id = ?', '[1]'), None)
    """
    if len(text) + len(parameters) > MOST_KEPT or any(map(is_secret, _WORD.findall(text) + _WORD.findall(parameters))):
        return None
    return without_credentials(text), without_credentials(parameters)
