"""`name=value` arguments of an operation: fields of its body, and parameters of the command line itself (spec: configuration §6.2)."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from svc.cli.arguments import UsageError, nearest
from svc.cli.secret_input import read_secret

if TYPE_CHECKING:
    from svc.operations.row_file import FieldRow, OperationRow

PARAMETERS: Mapping[str, str] = {
    "target": "address of another server: host, https://host:port or http://host:port; without it the server of this machine",
    "json": "true: JSON, also on a terminal; false: YAML, also in a pipe",
    "out": "file that the answer is written to",
    "wait": "false: do not wait for the end of the job that is started",
    "auth_username": "user at the other server",
    "auth_password": "and its password; auth_password_file=FILE reads it from a file, - from standard input",
    "rejectUnauthorized": "false: do not verify the certificate of the other server; also --insecure",
}
"""The parameters of the command line itself, for every operation without a field of that name."""

FOR_ALL = ("impersonate", "replicated")
"""Fields that every operation may have, whether its row says so or not."""

LOGIN_FIELDS = ("username", "password")

SECRET_FILE = "_file"
"""Behind the name of a secret: it is read from this file, or from standard input."""

OPEN = frozenset({"set_configuration"})
"""Operations with fields that no row lists."""

TEXT_KINDS = frozenset({"string", "any string", "name", "choice"})

_STAYS_TEXT = re.compile(r"password|username|auth_.*|.*_token")


@dataclass
class OperationArguments:
    """`body`: the fields, without the operation's name. `parameters`: those of PARAMETERS, with username and password if they are given."""

    body: dict[str, Any] = field(default_factory=dict)
    parameters: dict[str, Any] = field(default_factory=dict)

    def switch(self, name: str, default: bool | None = None) -> bool | None:
        """A parameter that is true or false. Raises UsageError."""
        value = self.parameters.get(name)
        if value is None:
            return default
        if not isinstance(value, bool):
            raise UsageError(f"{name} must be true or false")
        return value


def read_arguments(words: Sequence[str], row: OperationRow, *, remote: bool | None = None) -> OperationArguments:
    """Read the `name=value` arguments of an operation. Raises UsageError for unknown fields, and for missing required fields.

    `remote`: whether the operation goes to another server, which may want `username` and `password`; None: if `target=` is among the words.
    """
    given = {}
    for word in words:
        name, separator, text = word.partition("=")
        if not separator or not name:
            raise UsageError(f'"{word}" is not understood: fields are given as name=value. svc help {row.name} lists them.')
        given[name] = text
    if remote is None:
        remote = bool(given.get("target"))
    known = {name: field for field in row.fields for name in field.names}
    given = _with_secrets(given, known, remote=remote)
    result = OperationArguments()
    for name, text in given.items():
        if name in PARAMETERS and name not in known:
            result.parameters[name] = parse_value(name, text)
            continue
        value = parse_value(name, text, known.get(name))
        if name in LOGIN_FIELDS:
            result.parameters[name] = value
        if name in known or name in FOR_ALL or row.name in OPEN:
            result.body[name] = value
        elif not (name in LOGIN_FIELDS and remote):
            raise UsageError(_unknown(name, row, known))
    if row.name in OPEN:
        _check_open(result.body, known, row)
    missing = [field.name for field in row.fields if field.required and all(result.body.get(name) is None for name in field.names)]
    if missing:
        wanted = " ".join(f"{name}{SECRET_FILE}=-" if is_secret(name, known[name], remote=False) else f"{name}=..." for name in missing)
        raise UsageError(f"{row.name} needs {_listed(missing)}: svc {row.name} {wanted}\nsvc help {row.name} describes it.")
    return result


def _with_secrets(given: Mapping[str, str], known: Mapping[str, FieldRow], *, remote: bool) -> dict[str, str]:
    """Replace `password_file=FILE` and the like by the content of the file: a secret on the command line is visible to every user of the machine."""
    found = {}
    for name, text in given.items():
        secret = name.removesuffix(SECRET_FILE)
        if name in known or secret == name or not is_secret(secret, known.get(secret), remote=remote):
            found[name] = text
            continue
        if secret in given:
            raise UsageError(f"{secret} and {name} are given: one of them is enough")
        found[secret] = read_secret(secret, text)
    return found


def is_secret(name: str, field: FieldRow | None, *, remote: bool) -> bool:
    """Whether a word is a secret that may come from a file."""
    if field is not None:
        return field.secret and (field.kind in TEXT_KINDS or name == "password")
    return name == "auth_password" or (remote and name == "password")


def parse_value(name: str, text: str, field: FieldRow | None = None) -> Any:
    """Parse JSON, else keep the string. A field whose kind is a string keeps it, so that a table may be called 2024; quotes are JSON's.

    >>> parse_value("limit", "10"), parse_value("ids", '["a", 1]'), parse_value("value", "red"), parse_value("password", "123")
    (10, ['a', 1], 'red', '123')
    """
    if _STAYS_TEXT.fullmatch(name) or (field is not None and field.secret and field.kind in TEXT_KINDS):
        return text
    try:
        value = json.loads(text, parse_constant=_refuse)
    except (ValueError, RecursionError):
        return text
    if field is not None and field.kind in TEXT_KINDS and not isinstance(value, str):
        return text
    return value


def _refuse(constant: str) -> Any:
    raise ValueError(f"{constant} is not JSON")


def _unknown(name: str, row: OperationRow, known: Mapping[str, FieldRow]) -> str:
    near = nearest(name, [*known, *PARAMETERS, *FOR_ALL])
    hint = f" Did you mean {near}?" if near else f" svc help {row.name} lists its fields."
    return f"{row.name} has no field {name}.{hint}"


def _check_open(body: Mapping[str, Any], known: Mapping[str, FieldRow], row: OperationRow) -> None:
    """Names of settings: only those that are clearly misspelt are held back, for applications bring their own."""
    from svc.config.settings import override_names

    names = override_names()
    for name in body:
        if name in known or name in FOR_ALL or name.lower() in names or name.lower().endswith(("_package", "_port")):
            continue
        near = nearest(name.lower(), list(names))
        if near is not None:
            raise UsageError(f"{row.name} has no field {name}. Did you mean {near}?")


def _listed(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
