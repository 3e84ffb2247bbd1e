"""What is wrong with a statement, as an answer (spec: sql §7)."""

from __future__ import annotations

from svc.errors import AccessViolation, QueryError, QueryTooLarge

SHOWN = 60  # characters of a statement in a message


class SqlSyntaxError(QueryError):
    """Not a statement of this language. `position`: where it ceases to be one, characters from 0; `hint`: what may be meant, "" if that is not known."""

    def __init__(self, text: str, position: int, hint: str = "") -> None:
        snippet = text[position : position + SHOWN].strip() or "the end of the statement"
        line = text.count("\n", 0, position) + 1
        column = position - (text.rfind("\n", 0, position) + 1) + 1
        super().__init__(
            f"Invalid SQL at: {snippet}. Please ensure your SQL is valid. Try adding backticks to reserved words and schema table references."
            f" (line {line}, column {column}{f': {hint}' if hint else ''})",
            code="QUERY_SYNTAX",
            position=position,
        )
        self.hint = hint


class UnsupportedStatement(QueryError):
    """A statement that neither asks for records nor changes any. `kind`: its first words; `hint`: what to write instead, "" if there is nothing."""

    def __init__(self, kind: str, hint: str = "", position: int = 0) -> None:
        super().__init__(f"unsupported SQL type {kind.lower()}" + (f" ({hint})" if hint else ""), code="QUERY_SYNTAX", position=position)


class StatementTooLarge(QueryTooLarge):
    """A statement goes beyond one of `svc.sql.limits`; the message names it."""

    def __init__(self, message: str, position: int) -> None:
        super().__init__(message, budget="statement")
        self.position = position


class MissingRights(AccessViolation):
    """What a caller lacks: `missing` has (database, table, right, attribute or "") of each. Whoever has no right at all on a table or an attribute is told what
    is told of one that does not exist: `is_hidden` marks these."""

    def __init__(self, user: object, missing: list[tuple[str, str, str, str]], *, is_hidden: bool = False) -> None:
        database, table, right, attribute = missing[0]
        super().__init__(user, right=right, resource=f"{database}.{table}", attribute=attribute)
        self.missing = missing
        self.is_hidden = is_hidden


def unknown_column(name: str, hint: str = "", position: int | None = None) -> QueryError:
    return QueryError(f"unknown column {name}" + (f" ({hint})" if hint else ""), code="UNKNOWN_ATTRIBUTE", position=position)


def ambiguous_column(name: str, position: int | None = None) -> QueryError:
    return QueryError(f"ambiguous column reference {name}", code="UNKNOWN_ATTRIBUTE", position=position)


def insert_mismatch(position: int | None = None) -> QueryError:
    """A row of an INSERT has more or fewer values than there are columns."""
    message = "There was a problem performing this insert. Please check the logs and try again."
    return QueryError(message, code="BAD_VALUE", position=position)
