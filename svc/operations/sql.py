"""SQL as an operation (spec: operations §15, sql)."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from svc.api.statements import Statement
from svc.awaitables import is_waiting
from svc.errors import Problem, ServerError
from svc.operations.call import Call
from svc.operations.fields import Field, bad_request
from svc.operations.operation import ANYONE, Operation
from svc.operations.permissions import missing_table
from svc.operations.refusals import Violations

if TYPE_CHECKING:
    from svc.sql.errors import MissingRights


def sql(call: Call) -> Any:
    return _run(call, is_explained=bool(call["explain"]))


def _run(call: Call, *, is_explained: bool) -> Any:
    statements = call.node.statements
    if statements is None:
        raise ServerError("SQL is not available", 501)
    statement = Statement(call["sql"], call["parameters"], call.user, call, call.reader, call.authorized, call.joined, is_explained)
    return statements.run(statement, partial(_refusal, call))


async def check_query(call: Call) -> None:
    """Raise what the statement would be refused with, and 400 for one that is no query; nothing is run."""
    from svc.sql.nodes import Query
    from svc.sql.parser import parse

    if not isinstance(parse(call["sql"]), Query):
        raise bad_request("Only a SELECT can be exported")
    result = _run(call, is_explained=True)
    if is_waiting(result):
        await result


def _refusal(call: Call, error: MissingRights) -> Problem:
    """The object of the role check (spec: security §6)."""
    role = None if call.user is None else call.user.role
    violations = Violations()
    for database, table, right, attribute in error.missing:
        if error.is_hidden and not attribute:
            missing_table(violations, database, table, role, call.node)
        elif error.is_hidden:
            violations.add_missing_attribute(database, table, attribute)
        elif attribute:
            violations.add_attribute(database, table, attribute, (right,))
        else:
            violations.add_table(database, table, (right,))
    return violations.refusal()


OPERATIONS: tuple[Operation, ...] = (
    Operation(
        name="sql",
        category="sql",
        summary="Run a statement in SQL",
        permission=ANYONE,
        handler=sql,
        fields=(
            Field(
                "sql",
                "string",
                "One statement. Tables are written `database.table`.",
                required=True,
                missing="The 'sql' parameter is missing from the request body",
            ),
            Field("parameters", "any", "Values: a list for `?` in their order, an object for `:name`."),
            Field("explain", "bool", "Answer with the plan instead, without running the statement."),
        ),
        returns="Of a query its rows; of `INSERT`, `UPDATE` and `DELETE` what was written, or with `RETURNING` rows.",
        notes="""\
What is read needs `read` on its table and attribute, what is written `insert`, `update` or `delete`; `*` stands for the attributes that may be read.

| Statement | Answer |
|---|---|
| `SELECT`, `VALUES`, `WITH` | an array of rows |
| `INSERT` | `{"message": "inserted 2 of 2 records", "inserted_hashes", "skipped_hashes"}` |
| `UPDATE` | `{"message": "updated 4 of 4 records", "update_hashes", "skipped_hashes"}` |
| `DELETE` | `{"message": "2 of 2 records successfully deleted", "deleted_hashes", "skipped_hashes"}` |
| `EXPLAIN`, and anything with `explain` | the plan, as text and as JSON |

Values belong in `parameters`, not in the text: there they cannot be mistaken for SQL, keep their types, and the statement is read only once.
What a statement may cost is limited by `sql.maxTime`, `sql.maxMemory` and, where an answer cannot be streamed, `sql.maxRows`.""",
        example={
            "sql": "SELECT species, COUNT(*) AS plants, AVG(height) FROM garden.plant WHERE height > ? GROUP BY species",
            "parameters": [5],
        },
        example_answer=[{"species": "fern", "plants": 2, "AVG(height)": 11.5}],
    ),
)
