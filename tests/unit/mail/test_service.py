"""Mail of an instance: with a server, without one, and where there can be none."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from concurrent.futures import Executor
from pathlib import Path
from typing import Any

import pytest

from svc.clock import FakeClock
from svc.config import Config
from svc.errors import ConfigError
from svc.loop import new_loop
from svc.mail.outbox import KEPT, WAITING, OutgoingMail
from svc.mail.service import NOBODY, MailService
from svc.reactor import Reactor
from svc.store import Store
from svc.store.system import ensure_system
from svc.testing.loop import Pool
from tests.support.sibling_world import SiblingWorld

SERVER = {"host": "smtp.example.org", "from": "Shop <shop@example.org>"}
Make = Callable[..., MailService]


def make_executor(name: str, threads: int) -> Executor:
    return Pool()


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    store = Store(tmp_path / "database", clock=FakeClock())
    ensure_system(store)
    yield store
    store.close()


@pytest.fixture
def make(tmp_path: Path, store: Store) -> Iterator[Make]:
    loop, _ = new_loop()

    def make(section: dict[str, Any] | None, *, dev: bool = False, is_sent: bool = True) -> MailService:
        config = Config.from_document({} if section is None else {"mail": section}, tmp_path, dev=dev)
        reactor = Reactor(loop, store.clock, Pool(), lambda where, error: None)
        return MailService(config, store, SiblingWorld().start(), reactor, make_executor, is_sent=is_sent)

    yield make
    loop.close()


def added(store: Store, service: MailService) -> str:
    transaction = store.begin()
    message_id = service.outbox.add(OutgoingMail("ann@example.org", "x", "y"), transaction)
    store.commit_now(transaction)
    return message_id


def test_with_a_server_mails_wait_for_it(make: Make, store: Store) -> None:
    service = make(SERVER | {"hourlyLimit": None})
    assert service.sender is not None and service.mailbox == ("Shop", "shop@example.org") and service.hourly_limit is None
    assert added(store, service).endswith("@example.org>")
    assert len(list(service.outbox.iter_with(WAITING))) == 1 and service.kept() == []


@pytest.mark.parametrize("options", [{"section": None, "dev": True}, {"section": {}, "dev": True}, {"section": SERVER, "is_sent": False}])
def test_without_one_they_are_kept(make: Make, store: Store, options: dict[str, Any]) -> None:
    service = make(**options)
    assert service.sender is None and service.mailbox in (NOBODY, ("Shop", "shop@example.org"))
    added(store, service)
    assert len(list(service.outbox.iter_with(KEPT))) == 1
    assert service.kept() == [OutgoingMail("ann@example.org", "x", "y")]
    service.begin()
    asyncio.run(service.end())


def test_authorities_that_are_not_there_end_the_start(make: Make, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"'mail.certificateAuthority' names no file: .*/keys/ca\.pem"):
        make(SERVER | {"certificateAuthority": "keys/ca.pem"})


def test_a_key_that_cannot_be_used_ends_the_start(make: Make, store: Store, tmp_path: Path) -> None:
    keys = tmp_path / "database" / ".keys"
    keys.mkdir()
    (keys / ".mail.key").write_bytes(b"")
    with pytest.raises(ConfigError, match="the key of the outbox cannot be used"):
        make(SERVER)
