"""Help about operations for a terminal, made from the rows of the registry."""

from __future__ import annotations

import json
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from svc.cli.commands import BY_NAME
from svc.cli.operation_arguments import PARAMETERS, TEXT_KINDS

if TYPE_CHECKING:
    from svc.operations.row_file import FieldRow, OperationRow, PermissionRow

WIDTH = 110

_SHELL_SAFE = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-+./:,@%")

_KINDS: Mapping[str, str] = {
    "any string": "string, may be empty",
    "bool": "true or false",
    "non-empty list": "list",
    "strings": "list of strings",
    "objects": "list of objects",
    "keys": "list of keys",
    "any": "any value",
}


def operation_help(row: OperationRow) -> str:
    """Usage, fields, permission, result and an example of one operation."""
    parts = [usage(row), "", plain(row.summary)]
    if row.aliases:
        parts.append(f"Also called {', '.join(row.aliases)}.")
    if row.fields:
        parts += ["", "Fields:", *_field_lines(row.fields)]
    parts += ["", f"Permission: {permission_text(row.permission)}"]
    if row.returns:
        parts.append(f"Answer: {plain(row.returns)}")
    if row.starts_job:
        parts.append("It starts a job and waits for its end; wait=false returns at once, svc get_job id=... shows its progress.")
    if row.notes:
        parts += ["", *_paragraphs(row.notes)]
    if row.example or not any(field.required for field in row.fields):
        parts += ["", "Example:", f"  {command_line(row.name, row.example)}"]
        if row.example_answer is not None:
            parts += textwrap.indent(_short(row.example_answer), "    ").splitlines()
    parts += ["", "Of the command line: " + ", ".join(f"{name}=" for name in PARAMETERS) + " (svc help operations)"]
    return "\n".join(parts)


def operations_text() -> str:
    """All operations by category, and their common parameters."""
    from svc.operations.row_file import row_file

    rows = [row for row in row_file().rows if row.name not in BY_NAME]  # a command of the same name is not the operation
    width = max((len(row.name) for row in rows), default=0)
    parts = [
        "svc <operation> [name=value ...]",
        "",
        *_wrapped(
            "Runs an operation on the server of this machine, as super user through its Unix socket, or on another one with target=."
            " Values are JSON or text: limit=10 ids='[\"a\", 1]' value=red."
        ),
        "",
        "Output: on a terminal tables and YAML, in a pipe JSON. Errors go to standard error, with exit status 1.",
    ]
    for category, title in row_file().categories.items():
        chosen = [row for row in rows if row.category == category]
        if chosen:
            parts += ["", f"{title}:", *(f"  {row.name:{width}}  {plain(row.summary)}" for row in chosen)]
    parts += ["", "For every operation:", *(f"  {name + '=':{width}}  {sentence}" for name, sentence in PARAMETERS.items())]
    parts += [
        "",
        *_wrapped(
            "Credentials for target=, the first complete pair: auth_username= and auth_password=, user and password inside the URL,"
            " an API key in SVC_CLI_KEY, SVC_CLI_USERNAME and SVC_CLI_PASSWORD, what svc login has saved, username= and password=."
            " SVC_CLI_TARGET replaces target=; both may be in a file .env of the working directory."
        ),
        "",
        "svc help <operation> describes one.",
    ]
    return "\n".join(parts)


def usage(row: OperationRow) -> str:
    """The command line with its required fields."""
    required = [f"{field.name}=..." for field in row.fields if field.required]
    optional = ["[name=value ...]"] if len(required) < len(row.fields) else []
    return " ".join(["svc", row.name, *required, *optional])


def kind_text(field: FieldRow) -> str:
    if field.kind == "choice":
        return " | ".join(field.choices)
    return _KINDS.get(field.kind, field.kind)


def permission_text(permission: PermissionRow) -> str:
    """The permission that it needs, in words."""
    if permission.kind == "table":
        return f"{' and '.join(permission.rights)} on the table"
    return {
        "none": "no login needed",
        "any": "every active user",
        "super_user": "super users" + ("" if permission.grantable else " only, no role can grant it"),
        "structure": "super users, and structure users of the database",
    }.get(permission.kind, permission.kind)


def command_line(name: str, body: Mapping[str, Any]) -> str:
    """A body as the words of a command, quoted for a shell."""
    return " ".join(["svc", name, *(f"{key}={_quoted(_word(value))}" for key, value in body.items())])


def _word(value: Any) -> str:
    if isinstance(value, str):
        try:
            json.loads(value)
        except ValueError:
            return value
        return json.dumps(value, ensure_ascii=False)  # or a string like "12" would become a number
    return json.dumps(value, ensure_ascii=False)


def _quoted(text: str) -> str:
    if text and not set(text) - _SHELL_SAFE:
        return text
    return "'" + text.replace("'", "'\\''") + "'"


def plain(markdown: str) -> str:
    """A sentence without the marks of Markdown."""
    return markdown.replace("`", "").replace("**", "")


def _field_lines(fields: Sequence[FieldRow]) -> Iterator[str]:
    names = ["/".join(field.names) for field in fields]
    width = min(max(map(len, names)), 28)
    for name, field in zip(names, fields, strict=True):
        facts = [kind_text(field)]
        if field.required:
            facts.append("required")
        elif field.default is not None:
            default = field.default if field.kind in TEXT_KINDS else json.dumps(field.default, ensure_ascii=False)
            facts.append(f"default {default}")
        text = f"{plain(field.sentence)} ({', '.join(facts)})"
        first, *rest = _wrapped(text, WIDTH - width - 4) or [""]
        yield f"  {name:{width}}  {first}"
        yield from (" " * (width + 4) + line for line in rest)


def _paragraphs(markdown: str) -> Iterator[str]:
    for number, paragraph in enumerate(markdown.strip().split("\n\n")):
        if number:
            yield ""
        lines = paragraph.splitlines()
        if any(line.lstrip().startswith(("-", "|", "```", "*")) for line in lines):
            yield from (plain(line) for line in lines)
        else:
            yield from _wrapped(plain(" ".join(lines)))


def _wrapped(text: str, width: int = WIDTH) -> list[str]:
    return textwrap.wrap(text, width, break_long_words=False, break_on_hyphens=False)


def _short(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= WIDTH else json.dumps(value, ensure_ascii=False, indent=2)
