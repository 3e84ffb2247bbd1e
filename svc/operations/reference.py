"""docs/operations.md, made from the rows of the operations and the prose below.

python -m svc.operations.reference > docs/operations.md
"""

from __future__ import annotations

from typing import Any

import msgspec

from svc.operations.fields import Field
from svc.operations.openapi import access_text
from svc.operations.operation import CATEGORIES, Operation
from svc.operations.registry import all_operations

_INTRODUCTION = """# Operations

Made by `python -m svc.operations.reference` from the rows in `svc/operations/`; do not edit.

Administration, and work with many records at once: `POST` a JSON object with the name of an operation to port 9925. The examples use the demo (`svc demo`); `$LOGIN` holds `admin:`
and the password it printed. On the machine of the server the command line needs no password: `svc describe_table table=Plane`; [more](command-line.md).

```console
$ curl -su "$LOGIN" http://localhost:9925/ -H 'Content-Type: application/json' -d '{"operation":"create_table","table":"Visit"}'
{"message":"table 'data.Visit' successfully created."}
$ curl -su "$LOGIN" http://localhost:9925/ -H 'Content-Type: application/json' -d '{"operation":"upsert","table":"Visit","records":[{"id":"v1","airport":"EYW","days":3},{"id":"v2","airport":"HNL","days":9}]}' | sed 's/,"txn_time.*//'
{"message":"upserted 2 of 2 records","upserted_hashes":["v1","v2"],"new_attributes":["airport","days"]
$ curl -su "$LOGIN" http://localhost:9925/ -H 'Content-Type: application/json' -d '{"operation":"search_by_conditions","table":"Visit","conditions":[{"attribute":"days","comparator":"greater_than","value":5}],"get_attributes":["id","airport"]}'
[{"id":"v2","airport":"HNL"}]
$ curl -su "$LOGIN" http://localhost:9925/ -H 'Content-Type: application/json' -d '{"operation":"search_by_conditions","table":"Flight","query":"departureDelay=gt=1000&sort(-departureDelay)&select(id,departureDelay)&limit(1)"}'
[{"id":"2013-01-09/HA/51/JFK","departureDelay":1301}]
$ curl -su "$LOGIN" http://localhost:9925/ -H 'Content-Type: application/json' -d '{"operation":"insert","table":"Visit"}'
{"error":"'records' is required","code":"VALIDATION"}
```

- **Bodies** are JSON, CBOR or MessagePack; answers come in these or CSV, as `Accept` says. Fields that an operation does not know are ignored.
- **200** is the only success; for a write it means that it is on the disk. Errors are `{"error": text, "code": code}` with the status: 400 what was sent is wrong, and the text names each field; 401 nobody, or
  wrong credentials; 403 the role forbids it ([who may do what](security.md)); 404 no such database, table or item; 409 it exists or is in use; 503 too busy, try again.
- **Numbers** may be sent as strings (`"limit": "10"`), and the name of a table as a number. Faults name a field as it was sent.
- **Names** that stand for others: `schema` for `database`, `hash_values` for `ids`, `search_attribute`, `search_type` and `search_value` in conditions. A body without `database` means `data`.
- **Jobs**: what takes long is answered at once with a `job_id`; [`get_job`](#get_job) tells how far it is, `cancel_job` ends it.
- `replicated: true` also runs the operation on the other nodes of a cluster; on a node of its own it changes nothing. `impersonate` runs it with [the rights of somebody else](security.md#trying-rights).
- `GET /health` answers 200 while the process works, `GET /ready` as long as a load balancer should send requests here: 503 while it stops, or after `set_status` with
  `{"id":"availability","status":"Unavailable"}`. `GET /api/openapi/operations` is this page for programs.
"""


def reference() -> str:
    """The whole page."""
    rows = all_operations()
    parts = [_INTRODUCTION, "## All operations\n"]
    for category, title in CATEGORIES.items():
        named = [row for row in rows if row.category == category]
        if named:
            parts.append(f"**{title}**: " + ", ".join(f"[`{row.name}`](#{row.name})" for row in named) + "\n")
    for category, title in CATEGORIES.items():
        named = [row for row in rows if row.category == category]
        if named:
            parts.append(f"\n## {title}\n")
            parts += [section(row) for row in named]
    return "\n".join(parts).rstrip() + "\n"


def section(row: Operation) -> str:
    """One operation."""
    parts = [f"### {row.name}\n", f"{row.summary.rstrip('.')}. {access_text(row)}"]
    if row.aliases:
        parts[-1] += f" Also called {', '.join(f'`{alias}`' for alias in row.aliases)}."
    if row.starts_job:
        parts[-1] += " Runs as a job."
    if row.fields:
        parts += ["", "| Field | Type | |", "|---|---|---|", *map(_field, row.fields)]
    if row.returns:
        parts += ["", f"Answer: {row.returns}"]
    if row.notes:
        parts += ["", row.notes]
    example = _json({"operation": row.name, **row.example})
    parts += ["", "```json", example, *([_json(row.example_answer)] if row.example_answer is not None else []), "```", ""]
    return "\n".join(parts)


def _field(field: Field) -> str:
    kind = ", ".join(f"`{choice}`" for choice in field.choices) if field.kind == "choice" else field.kind
    sentence = field.sentence
    if field.default is not None and "default" not in sentence.lower():
        sentence += f" Default: `{_json(field.default)}`."
    if field.aliases:
        sentence += f" Also `{'`, `'.join(field.aliases)}`."
    return f"| `{field.name}`{' (required)' if field.required else ''} | {kind} | {sentence.replace('|', chr(92) + '|')} |"


def _json(value: Any) -> str:
    return msgspec.json.encode(value).decode()


if __name__ == "__main__":
    print(reference(), end="")
