"""`svc get TABLE[/ID][?QUERY] [as=USER]`: the records of a table, as a user sees them (spec: rows §1.8)."""

from __future__ import annotations

import json
from dataclasses import replace

from svc.cli.arguments import Arguments, UsageError
from svc.cli.operations import run_operation

USAGE = "svc get TABLE, TABLE/ID or 'TABLE?QUERY'; as=USER shows what that user sees"


def get(arguments: Arguments) -> int:
    """Returns the exit status. Raises UsageError."""
    from svc.operations.row_file import rows_by_name

    arguments.no_flags("json", "insecure")
    arguments.no_options_but("rootpath")
    name, words = search_of(arguments.words)
    return run_operation(replace(arguments, command=name, words=words), rows_by_name()[name])


def search_of(words: list[str]) -> tuple[str, list[str]]:
    """The operation that reads what is meant, and its `name=value` words. Raises UsageError.

    >>> search_of(["Issue?state==open&limit(5)", "as=ann"])
    ('search_by_conditions', ['database=data', 'table="Issue"', 'query="state==open&limit(5)"', 'impersonate={"username": "ann"}'])
    >>> search_of(["shop.Issue/7"])
    ('search_by_id', ['database=shop', 'table="Issue"', 'ids=["7"]'])
    """
    if not words:
        raise UsageError(USAGE)
    address, has_query, query = words[0].removeprefix("/").partition("?")
    table, has_key, key = address.partition("/")
    database, has_database, name = table.rpartition(".")
    if not name or "=" in address:
        raise UsageError(f'"{words[0]}" names no table: {USAGE}')
    found = [f"database={database if has_database else 'data'}", f"table={json.dumps(name)}"]
    if has_key and key:
        if has_query:
            raise UsageError("A record is read by its id, without a query")
        operation, found = "search_by_id", [*found, f"ids={json.dumps([key])}"]
    else:
        operation, found = "search_by_conditions", [*found, f"query={json.dumps(query)}"]
    for word in words[1:]:
        if word.startswith("as="):
            found.append(f"impersonate={json.dumps({'username': word[3:]})}")
        else:
            found.append(word)
    return operation, found
