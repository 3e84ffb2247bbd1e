"""`svc grant`, `svc revoke` and `svc grants`: rights of roles on tables (spec: configuration §6.1)."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from svc.cli.arguments import Arguments, UsageError
from svc.cli.client import AuthenticationRefused, Client, Unreachable
from svc.cli.operation_arguments import PARAMETERS, OperationArguments, parse_value
from svc.cli.operations import local_client, remote_client
from svc.cli.output import chosen_style, printable, refuse, show, warn
from svc.cli.secret_input import read_secret
from svc.cli.target import cli_environment, target_text

_RIGHTS = ("read", "insert", "update", "delete")


def change(arguments: Arguments) -> int:
    """`svc grant ROLE RIGHTS TABLE` and `svc revoke ROLE RIGHTS TABLE`. With fields as `name=value` it is the operation of that name."""
    words, given = _split(arguments)
    if len(words) != 3:
        raise UsageError(
            f"svc {arguments.command} ROLE RIGHT[,RIGHT] TABLE[.ATTRIBUTE], for example: svc {arguments.command} anonymous read Product"
        )
    role, rights, target = words
    body = {"operation": arguments.command, "role": role, "rights": [right for right in rights.split(",") if right], "on": target}
    return _with_client(arguments, given, lambda client: _change(client, body))


def show_grants(arguments: Arguments) -> int:
    """`svc grants [ROLE]`: who may do what, a row for each table of a role."""
    words, given = _split(arguments)
    if len(words) > 1:
        raise UsageError(f'The command "grants" takes one role, "{words[1]}" is too much.')
    role = words[0] if words else None
    style = chosen_style(True if "json" in arguments.flags else given.switch("json"))

    def run(client: Client) -> int:
        answer = client.send({"operation": "list_roles"})
        if answer.status != 200:
            return refuse(answer.error_text())
        rows = [row for record in answer.value() if role in (None, record["role"]) for row in grant_rows(record)]
        if role is not None and not rows:
            return refuse(f"the role {role} has no rights, or there is no such role")
        show(rows, style)
        return 0

    return _with_client(arguments, given, run)


def grant_rows(record: Mapping[str, Any]) -> Iterator[dict[str, str]]:
    """The rights of a role as `list_roles` returns it: `{role, on, rights}`."""
    role, permission = str(record["role"]), record.get("permission") or {}
    if permission.get("super_user") is True:
        yield {"role": role, "on": "everything", "rights": "all"}
    structure = permission.get("structure_user")
    for database in ["every database"] if structure is True else structure or ():
        yield {"role": role, "on": str(database), "rights": "all, and its structure"}
    for database, value in permission.items():
        tables = value.get("tables") if isinstance(value, Mapping) else None
        for table, entry in tables.items() if isinstance(tables, Mapping) else ():
            yield from _entry_rows(role, f"{database}.{table}", entry)


def _entry_rows(role: str, table: str, entry: Mapping[str, Any]) -> Iterator[dict[str, str]]:
    listed = entry.get("attribute_permissions") or ()
    rights = (
        ["delete"] if listed and entry.get("delete") is True else [] if listed else [name for name in _RIGHTS if entry.get(name) is True]
    )
    if rights:
        yield {"role": role, "on": table, "rights": ", ".join(rights)}
    for attribute in listed:
        given = [name for name in _RIGHTS if attribute.get(name) is True]
        if given:
            yield {"role": role, "on": f"{table}.{attribute['attribute_name']}", "rights": ", ".join(given)}


def _change(client: Client, body: Mapping[str, Any]) -> int:
    answer = client.send(body)
    if answer.status != 200:
        return refuse(answer.error_text())
    result = answer.value()
    print(printable(str(result.get("message"))))
    if isinstance(result.get("warning"), str):
        warn(printable(result["warning"]))
    return 0


def _with_client(arguments: Arguments, given: OperationArguments, run: Any) -> int:
    environment = cli_environment(os.environ, Path.cwd())
    address = target_text(given.parameters.get("target"), environment)
    client = remote_client(address, arguments, given, environment) if address else local_client(arguments)
    try:
        return int(run(client))
    except (Unreachable, AuthenticationRefused) as error:
        return refuse(str(error))


def _split(arguments: Arguments) -> tuple[list[str], OperationArguments]:
    """The words, and the parameters of the command line among them."""
    words, parameters = [], {}
    for word in arguments.words:
        name, separator, value = word.partition("=")
        if separator and name in PARAMETERS:
            parameters[name] = parse_value(name, value)
        elif separator and name == "auth_password_file":
            parameters["auth_password"] = read_secret("auth_password", value)
        else:
            words.append(word)
    return words, OperationArguments(parameters=parameters)
