"""An application with accounts, on an instance without ports, whose mails are kept."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from textwrap import dedent
from typing import Any

from svc.accounts.directory import Accounts
from svc.auth import verifier
from svc.mail.outbox import Outbox, OutgoingMail
from svc.testing.answer import Answer
from svc.testing.application import Application, app

SCHEMA = """
type Person @table @account @export {
  username: ID @primaryKey
  email: String @unique
  name: String
  born: Int
  karma: Int
  joined: Float @createdTime
}
type Note @table @export { id: ID @primaryKey  owner: ID @indexed  text: String }
"""
ROLES = """
member:
  data:
    Note: {read: true, insert: true, update: true}
"""
ACCOUNTS = """
rest: true
login: true
graphqlSchema: {files: schema.graphql}
roles: {files: roles.yaml}
"""
PASSWORD = "correct horse"
ADDRESS = "ann@example.org"


def write_site(directory: Path, entry: str, files: Mapping[str, str] | None = None, *, schema: str = SCHEMA, roles: str = ROLES) -> Path:
    """`entry`: of `accounts`, as flow mapping of YAML: `{role: member}`."""
    directory.mkdir(parents=True, exist_ok=True)
    given = {"schema.graphql": schema, "roles.yaml": roles, "config.yaml": f"{ACCOUNTS}accounts: {entry}\n", **(files or {})}
    for name, text in given.items():
        path = directory / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(dedent(text), encoding="utf-8")
    return directory


class Site:
    """`browser`: requests without credentials but its cookies."""

    def __init__(self, application: Application) -> None:
        self.application = application

    @property
    def accounts(self) -> Accounts:
        found = self.application.instance.server.node.accounts
        assert found is not None
        return found

    @property
    def outbox(self) -> Outbox:
        service = self.application.instance.server.node.find_mail()
        assert service is not None
        return service.outbox

    def post(self, path: str, body: Any = None, **options: Any) -> Answer:
        given = () if "data" in options else ({} if body is None else body,)
        return self.application.post(f"/accounts{path}", *given, **{"user": None, **options})

    def sign_up(self, **fields: Any) -> Answer:
        return self.post("", {"password": PASSWORD, **fields})

    def get(self, path: str, **options: Any) -> Answer:
        return self.application.get(f"/accounts{path}", **{"user": None, **options})

    def can_log_in(self, username: str, password: str = PASSWORD) -> bool:
        return self.application.post("/login", {"username": username, "password": password}, user=None).status == 200

    # --- mails -------------------------------------------------------------------------------------------------------------------------

    @property
    def mails(self) -> list[OutgoingMail]:
        """All that were written, oldest first."""
        rows = [self.outbox.record(record["id"]) for status in ("kept", "waiting") for record in self.outbox.iter_with(status)]
        return [self.outbox.mail_of(row) for row in sorted((row for row in rows if row is not None), key=lambda row: str(row["id"]))]

    def code(self) -> str:
        """That of the last mail."""
        found = re.search(r"^The code is (\S+)$", self.mails[-1].text, re.MULTILINE)
        assert found is not None, self.mails[-1].text
        return found[1]

    # --- what is stored ------------------------------------------------------------------------------------------------------------------

    @property
    def users(self) -> list[str]:
        """The names of those who are members."""
        return sorted(user["username"] for user in self.application.operation("list_users") if user["role"]["role"] == "member")

    @property
    def records(self) -> list[str]:
        return sorted(record["username"] for record in self.application.tables.Person.search({}))

    def check(self) -> None:
        """Users and records agree, and nothing is left of how they were made."""
        assert self.users == self.records
        notes = self.accounts.pairs.notes
        assert notes.record_count() == 0


@contextmanager
def open_site(directory: Path, entry: str, files: Mapping[str, str] | None = None, **options: Any) -> Iterator[Site]:
    schema, roles = options.pop("schema", SCHEMA), options.pop("roles", ROLES)
    with app(write_site(directory, entry, files, schema=schema, roles=roles), **options) as application:
        yield Site(application)


@contextmanager
def counted_hashes(monkeypatch: Any) -> Iterator[Callable[[], int]]:
    """How many passwords have been hashed or compared since the last question."""
    count = 0
    hash_password, verify_password = verifier.hash_password, verifier.verify_password

    def counting(function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any) -> Any:
            nonlocal count
            count += 1
            return function(*arguments)

        return call

    def since() -> int:
        nonlocal count
        found, count = count, 0
        return found

    with monkeypatch.context() as patch:
        patch.setattr(verifier, "hash_password", counting(hash_password))
        patch.setattr(verifier, "verify_password", counting(verify_password))
        yield since
