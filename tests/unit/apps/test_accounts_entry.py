"""The entry `accounts`: what is wrong with it is said with its place when the application is loaded (spec: rows §2.1)."""

from __future__ import annotations

from pathlib import Path

import pytest

from svc.testing.application import app
from svc.testing.instance import LoadError
from tests.support.accounts import SCHEMA, open_site, write_site

KEY = "type Person @table @account { username: ID @primaryKey %s }\n"


@pytest.mark.parametrize(
    ("entry", "text"),
    [
        ("true", "config.yaml:6: accounts is a mapping with role: NAME"),
        ("{}", ""),
        ("{identity: email}", "config.yaml:6: role: NAME is needed"),
        ("{role: ''}", "config.yaml:6: role: NAME is needed"),
        ("{role: nobody}", "config.yaml:6: there is no role nobody: add it to roles.yaml"),
        ("{role: super_user}", "super_user is a role of super users, which nobody may get by signing up"),
        ("{role: member, identity: phone}", "identity is username or email, not 'phone'"),
        ("{role: member, verify: maybe}", "verify must be true or false, not 'maybe'"),
        ("{role: member, signup: true}", "'signup' is not an option of accounts, did you mean 'signUp'?"),
        ("{role: member, passwords: {minLength: 3}}", "'minLength' is not an option of accounts.passwords, did you mean 'minimumLength'?"),
        ("{role: member, passwords: 8}", "passwords is a mapping with minimumLength"),
        ("{role: member, passwords: {minimumLength: 0}}", "passwords.minimumLength must be a whole number from 1 to 128, not 0"),
        ("{role: member, lifetimes: {reset: 30x}}", "lifetimes.reset has an unknown unit of time 'x'"),
        ("{role: member, lifetimes: {reset: 1s}}", "lifetimes.reset must be from 1m to 7d"),
        ("{role: member, limits: {mails: .inf}}", "limits.mails must be a whole number"),
        ("{role: member, url: shop.example}", "url is what links in mails begin with, such as https://shop.example"),
        ("{role: member, attributes: name}", "attributes is a list of names"),
        ("{role: member, attributes: [nam]}", "attributes: Person has no attribute nam"),
        ("{role: member, attributes: [joined]}", "attributes: joined cannot be set by members"),
        ("{role: member, attributes: [email]}", "attributes: email cannot be set by members"),
        ("{role: member, providers: x}", "providers is a list of mappings"),
        ("{role: member, pages: ../elsewhere}", "pages"),
    ],
)
def test_faults(tmp_path: Path, entry: str, text: str) -> None:
    if not text:  # an empty entry is none
        with app(write_site(tmp_path / "site", entry)) as application:
            assert application.post("/accounts", {}, user=None).status == 404
        return
    with pytest.raises(LoadError) as raised, app(write_site(tmp_path / "site", entry)):
        pass
    assert text in str(raised.value), raised.value


def test_lines_are_those_of_the_option(tmp_path: Path) -> None:
    with pytest.raises(LoadError) as raised, app(write_site(tmp_path / "site", "\n  role: member\n  passwords:\n    minimumLength: x")):
        pass
    assert "config.yaml:9: passwords.minimumLength" in str(raised.value)


@pytest.mark.parametrize(
    ("schema", "entry", "text"),
    [
        ("type Person @table { username: ID @primaryKey }\n", "{role: member}", "no type is marked @account; an example: type Person"),
        (KEY % "", "{role: member, identity: email}", "Person needs email: String @unique"),
        (KEY % "", "{role: member, verify: true}", "Person needs email: String @unique, since verify is true"),
        (KEY % "email: String", "{role: member}", "email of Person must be @unique"),
        (KEY % "email: Int @unique", "{role: member}", "email of Person must be a String"),
        (KEY % "email: String! @unique", "{role: member}", "must not be required without verify: true"),
        (
            KEY % "plan: String!",
            "{role: member, attributes: []}",
            "plan of Person is required, so those who sign up must be able to set it",
        ),
    ],
)
def test_faults_of_the_type(tmp_path: Path, schema: str, entry: str, text: str) -> None:
    note = "type Note @table @export { id: ID @primaryKey }\n"
    with pytest.raises(LoadError) as raised, open_site(tmp_path / "site", entry, schema=schema + note):
        pass
    assert text in str(raised.value), raised.value


def test_a_second_application_is_refused(tmp_path: Path) -> None:
    with open_site(tmp_path / "first", "{role: member}") as site:
        instance = site.application.instance
        second = write_site(tmp_path / "second", "{role: member}", schema=SCHEMA.replace("Person", "Client").replace("Note", "Remark"))
        loaded = site.application.run(instance.server.applications.add(second))
        (message,) = loaded.entries["accounts"].messages
        assert "the application first has accounts already: one application of an instance has" in message
        assert site.sign_up(username="ann").status == 201
        site.check()


def test_another_version_takes_over(tmp_path: Path) -> None:
    with open_site(tmp_path / "site", "{role: member, signUp: false}") as site:
        assert site.sign_up(username="ann").status == 403
        write_site(tmp_path / "site", "{role: member}")
        assert site.application.run(site.application.instance.app.load())
        assert site.sign_up(username="ann").status == 201
        write_site(tmp_path / "site", "{role: nothing-yet, identity: phone}")
        assert not site.application.run(site.application.instance.app.load()), "the version before goes on"
        assert site.sign_up(username="bob").status == 201
        write_site(tmp_path / "site", "false")
        assert site.application.run(site.application.instance.app.load())
        assert site.sign_up(username="cid").status == 404
        assert site.application.operation("drop_user", username="ann") == {"message": "ann successfully deleted"}


def test_a_role_that_goes_later(tmp_path: Path) -> None:
    with open_site(tmp_path / "site", "{role: member}") as site:
        site.application.operation("drop_role", id="member")
        answer = site.sign_up(username="ann")
        assert answer.status == 503 and "member" not in answer.text
        site.application.operation("add_role", role="member", permission={"super_user": True})
        assert site.sign_up(username="ann").status == 503
        assert site.records == []


def test_templates_with_faults(tmp_path: Path) -> None:
    for name, text in (("mails/accounts/confirm.txt", "no subject"), ("accounts/sign_up.html", "{% extends 'base.html' %}\n{% if %}")):
        with (
            pytest.raises(LoadError, match=r"(its subject|sign_up\.html:2: )"),
            open_site(tmp_path / name.replace("/", "-"), "{role: member}", {name: text}),
        ):
            pass


def test_what_has_failed_says_so_at_its_address(tmp_path: Path) -> None:
    with app(write_site(tmp_path / "site", "{role: 7}"), check=False) as application:
        for path in ("/accounts", "/accounts/me"):
            assert application.post(path, {}, user=None).status == 503
        assert "role: NAME is needed" in application.get("/accounts").json["detail"]


def test_rights_past_the_addresses_are_a_warning(tmp_path: Path) -> None:
    roles = "member: {data: {Person: {read: true, insert: true, update: true}}}\n"
    with open_site(tmp_path / "site", "{role: member}", roles=roles) as site:
        messages = site.application.statuses["accounts"].messages
        assert any("config.yaml:6: member may insert and update email in Person" in message for message in messages)
