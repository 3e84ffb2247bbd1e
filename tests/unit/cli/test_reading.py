"""`svc get`: which operation reads what is meant, and what a user sees (spec: rows §1.8)."""

from pathlib import Path
from typing import Any

import pytest

import svc.testing
from svc.cli.arguments import UsageError, parse_arguments
from svc.cli.operation_arguments import read_arguments
from svc.cli.reading import get, search_of
from svc.operations.row_file import rows_by_name
from tests.support import issues
from tests.support.issues import ISSUES, seen


def test_what_a_user_sees(tmp_path: Path) -> None:
    (tmp_path / "config.yaml").write_text("rest: true\ngraphqlSchema: {files: schema.graphql}\nroles: {files: roles.yaml}\n")
    (tmp_path / "schema.graphql").write_text(issues.SCHEMA)
    (tmp_path / "roles.yaml").write_text(issues.ROLES)
    with svc.testing.app(tmp_path) as app:
        issues.fill(app)
        app.operation("add_user", username="root", password="a long one", role="super_user", active=True)

        def shown(*words: str) -> list[Any]:
            name, given = search_of(list(words))
            body = {"operation": name, **read_arguments(given, rows_by_name()[name]).body}
            server = app.instance.server
            found = app.run(
                server.operations_interface.operations.perform(body, server.accounts.directory.get_user("root"), authorize=True)
            )
            return sorted(row["id"] for row in found)

        assert shown("Issue") == [issue["id"] for issue in ISSUES]
        assert shown("data.Issue/i02") == ["i02"]
        assert shown("Issue?state==draft&votes=ge=0") == [issue["id"] for issue in ISSUES if issue["state"] == "draft"]
        for user in ("ann", "bob", "mod"):
            assert shown("Issue", f"as={user}") == seen(user)
            assert shown("/Issue?state==draft", f"as={user}") == seen(user, state="draft")
            assert shown("Issue/i02", f"as={user}") == [key for key in ["i02"] if key in seen(user)]


@pytest.mark.parametrize("words", [[], ["?a=b"], ["a=b"], ["data."], ["Issue/1?select(id)"]])
def test_what_names_no_records(words: list[str]) -> None:
    with pytest.raises(UsageError):
        get(parse_arguments(["get", *words]))
