"""What code of the application says of sign-ups (spec: rows §2.3)."""

from __future__ import annotations

from pathlib import Path

import pytest

from svc.testing.instance import LoadError
from tests.support.accounts import ADDRESS, PASSWORD, open_site

CODE = """
from svc import ClientError, get_user, tables


def before_sign_up(record):
    assert "password" not in record and get_user() is None
    if record.get("name") == "Eve":
        raise ClientError("Not you", 403, "NOT_YOU")
    if record.get("name") == "Mallory":
        return False
    if record.get("name") == "Broken":
        return 1 / 0
    record["karma"] = 10
    record["username"] = "somebody else"


async def after_sign_up(user):
    assert get_user().username == user.username
    if user.username == "late" or user.username != (await tables.Person.get(user.username))["username"]:
        raise ClientError("Not now", 403, "NOT_NOW")
    await tables.Note.put(user.username, {"owner": user.username, "text": "welcome"})
"""


def test_hooks_may_refuse_and_add(tmp_path: Path) -> None:
    with open_site(tmp_path / "site", "{role: member}", {"accounts.py": CODE}) as site:
        answer = site.sign_up(username="ann", name="Ann")
        assert answer.status == 201 and answer.json["record"]["karma"] == 10
        assert answer.json["username"] == "ann", "a hook does not choose names"
        assert site.application.tables.Note.get("ann")["text"] == "welcome"
        assert site.sign_up(username="eve", name="Eve").json["code"] == "NOT_YOU"
        assert site.sign_up(username="mal", name="Mallory").json["code"] == "SIGN_UP_REFUSED"
        assert site.sign_up(username="late").json["code"] == "NOT_NOW"
        assert site.users == ["ann"]
        site.check()


def test_a_hook_that_fails_is_a_defect_and_leaves_nothing(tmp_path: Path) -> None:
    with open_site(tmp_path / "site", "{role: member}", {"accounts.py": CODE}) as site:
        answer = site.sign_up(username="x", name="Broken")
        assert answer.status == 500 and "zero" not in answer.text
        assert site.users == []
        site.check()


def test_a_hook_of_another_file(tmp_path: Path) -> None:
    code = "def after_sign_up(user):\n    return False\n"
    with open_site(tmp_path / "site", "{role: member, hooks: lib/hooks.py}", {"lib/hooks.py": code}) as site:
        assert site.sign_up(username="ann").status == 403
        site.check()


def test_hooks_beside_other_code(tmp_path: Path) -> None:
    files = {
        "config.yaml": "accounts: {role: member}\nrest: true\nlogin: true\ngraphqlSchema: '*.graphql'\nroles: roles.yaml\nresources: 'lib/*.py'\n",
        "lib/other.py": "x = 1\n",
        "lib/people.py": "async def before_sign_up(record):\n    record['karma'] = 7\n",
    }
    with open_site(tmp_path / "site", "{role: member}", files) as site:
        assert site.sign_up(username="ann").json["record"]["karma"] == 7
        site.check()


def test_with_verify_the_hooks_are_asked_when_there_is_something_to_refuse(tmp_path: Path) -> None:
    entry = "{role: member, verify: true, url: 'https://shop.example'}"
    with open_site(tmp_path / "site", entry, {"accounts.py": CODE}) as site:
        assert site.sign_up(username="eve", name="Eve", email=ADDRESS).json["code"] == "NOT_YOU"
        assert site.mails == []
        assert site.sign_up(username="late", email=ADDRESS).status == 202
        assert site.post("/confirm", {"code": site.code()}).json["code"] == "NOT_NOW"
        assert site.sign_up(username="ann", email=ADDRESS).status == 202
        assert site.post("/confirm", {"code": site.code()}).status == 200
        assert site.can_log_in("ann", PASSWORD)
        site.check()


@pytest.mark.parametrize(
    ("hooks", "text"),
    [
        ("no.py", "there is no file no.py"),
        ("../x.py", "leads out"),
        ("bad.py", "invalid syntax"),
        ("odd.py", "before_sign_up is no function"),
    ],
)
def test_hooks_that_cannot_be_loaded(tmp_path: Path, hooks: str, text: str) -> None:
    files = {"bad.py": "def x(:\n", "odd.py": "before_sign_up = 7\n"}
    with pytest.raises(LoadError, match=text), open_site(tmp_path / "site", f"{{role: member, hooks: {hooks}}}", files):
        pass
