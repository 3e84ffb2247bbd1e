"""svc.operations.mails: what waits and what was given up, without what it says."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from svc.errors import Problem
from svc.mail.outbox import OutgoingMail
from svc.mail.service import MailService
from svc.reactor import Reactor
from svc.testing.loop import Pool
from tests.support.operations import OperationsNode

MAIL = {"host": "smtp.example.org", "from": "shop@example.org"}


@pytest.fixture
def node(tmp_path: Path) -> Iterator[OperationsNode]:
    with OperationsNode(tmp_path, settings={"mail": MAIL}) as node:
        reactor = Reactor(node.loop, node.clock, node.executor, lambda where, error: None)
        service = MailService(node.config, node.store, node.node.siblings, reactor, lambda name, threads: Pool())
        node.node.find_mail = lambda: service
        yield node


def add(node: OperationsNode, to: str = "ann@example.org") -> str:
    assert node.node.mail is not None
    transaction = node.store.begin()
    found = node.node.mail.add(OutgoingMail(to, "Your code", "1234"), transaction, application="shop", template="code")
    node.store.commit_now(transaction)
    return found[1:].partition("@")[0]


def give_up(node: OperationsNode, row: str) -> None:
    outbox = node.node.mail
    assert outbox is not None
    node.wait(lambda: outbox.give_up(row, "550 no"))


def rows(node: OperationsNode, **fields: Any) -> list[str]:
    return [row["id"] for row in node.run("list_mails", **fields)]


def test_mails_are_listed_without_their_texts(node: OperationsNode) -> None:
    first, second = add(node), add(node)
    give_up(node, first)
    assert rows(node) == [second, first] and rows(node, limit=1) == [second] and rows(node, status="given_up") == [first]
    (row,) = node.run("list_mails", status="given_up")
    assert (row["to"], row["template"], row["application"], row["error"], row["attempts"]) == (
        "ann@example.org",
        "code",
        "shop",
        "550 no",
        1,
    )
    assert not {"body", "subject", "recipient"} & row.keys() and "1234" not in str(row)


def test_mails_are_tried_again(node: OperationsNode) -> None:
    first, second, third = add(node), add(node), add(node)
    give_up(node, first)
    give_up(node, second)
    assert node.run("retry_mails", ids=[first]) == {"message": "1 mail is tried again", "retried": [first]}
    assert rows(node, status="given_up") == [second]
    assert node.run("retry_mails")["retried"] == [second]
    assert node.run("retry_mails", ids=[third, third, "other"])["retried"] == [third]
    assert node.run("retry_mails") == {"message": "0 mails are tried again", "retried": []}
    with pytest.raises(Problem) as raised:
        node.run("retry_mails", ids=["other"])
    assert raised.value.status_code == 404


@pytest.mark.parametrize("fields", [{"status": "lost"}, {"limit": 0}, {"limit": 1001}, {"limit": "x"}])
def test_what_is_wrong(node: OperationsNode, fields: dict[str, Any]) -> None:
    with pytest.raises(Problem) as raised:
        node.run("list_mails", **fields)
    assert raised.value.status_code == 400


def test_they_are_for_super_users(node: OperationsNode) -> None:
    for operation in ("list_mails", "retry_mails"):
        with pytest.raises(Problem) as raised:
            node.run(operation, user=node.user("ann", {}))
        assert raised.value.status_code == 403


def test_without_mail(tmp_path: Path) -> None:
    with OperationsNode(tmp_path) as node, pytest.raises(Problem, match="Mail is not configured") as raised:
        node.run("list_mails")
    assert raised.value.status_code == 501
