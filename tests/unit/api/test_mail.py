"""`mail` of application code, in a test instance: what is part of which transaction."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import svc.testing
from tests.support.mailing import write_application


def test_it_is_part_of_the_transaction_of_the_request(tmp_path: Path) -> None:
    with svc.testing.app(write_application(tmp_path / "shop")) as app:
        assert app.mails == []
        assert app.post("/Orders/", {"id": "1", "to": "ann@example.org", "fails": True}).status == 500
        assert app.mails == []
        assert app.post("/Orders/", {"id": "2", "to": "ann@example.org", "name": "Ann"}).status == 200
        (mail,) = app.mails
        assert (mail.to, mail.subject) == ("ann@example.org", "Order 2 of Ann") and mail.html is not None


def test_what_a_transaction_of_code_aborts_is_not_sent(tmp_path: Path) -> None:
    with svc.testing.app(write_application(tmp_path / "shop")) as app:
        assert app.post("/Many/", {"numbers": [1, 2, 3]}).json == 3
        assert [mail.to for mail in app.mails] == ["1@example.org", "2@example.org", "3@example.org"]
        assert app.post("/Many/", {"numbers": [4], "aborts": True}).status == 200
        assert len(app.mails) == 3


def test_code_without_a_call_has_it_on_the_disk(tmp_path: Path) -> None:
    with svc.testing.app(write_application(tmp_path / "shop")) as app:
        mail = app.module("resources").mail
        found = app.run(mail.send("ann@example.org", "order", name="Ann", id="1"))
        assert found.endswith("@localhost>") and len(app.mails) == 1 and repr(mail) == "<mail>"


@pytest.mark.parametrize(
    ("arguments", "error"),
    [(("ann", "order"), "the address of one mailbox"), (("ann@example.org", "other"), "there is no template of a mail 'other'")],
)
def test_what_is_wrong_is_raised(tmp_path: Path, arguments: Any, error: str) -> None:
    with svc.testing.app(write_application(tmp_path / "shop")) as app:
        with pytest.raises(Exception, match=error):
            app.run(app.module("resources").mail.send(*arguments, name="", id=""))
        assert app.mails == []


def test_values_may_have_any_name(tmp_path: Path) -> None:
    directory = write_application(tmp_path / "shop")
    (directory / "mails" / "names.txt").write_text("Subject: {{ to }} {{ template }} {{ self_ }}\n\n{{ values }}")
    with svc.testing.app(directory) as app:
        app.run(app.module("resources").mail.send("ann@example.org", "names", to="a", template="b", self_="c", values="d"))
        assert (app.mails[0].subject, app.mails[0].text) == ("a b c", "d")
