"""What the accounts of applications work with: the parts of one instance (spec: rows §2)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import Executor
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from svc.auth.passwords import DEFAULT_HASH_FUNCTION, DEFAULT_MIN_LENGTH
from svc.auth.sessions import Sessions
from svc.auth.users import UserDirectory
from svc.auth.verifier import Verifier
from svc.clock import Clock
from svc.store import Store

if TYPE_CHECKING:
    from svc.accounts.directory import Accounts
    from svc.mail.outbox import Outbox


@dataclass
class AccountParts:
    """`outbox`: None without a section `mail`. `minimum_length`: of passwords, `authentication.passwordMinLength`. `address`: what links begin with where the
    application names no other, `http://localhost:9926`. `failure_delay`: who asks the same again and again waits. `token_id`: of a token that a request has
    brought. `identity`, `is_alive`: of this process, and of any, as in `siblings`. `tell(topic, value)`: to the other processes. `warn(text)` logs. `keys`:
    the directory of the node's keys.

    `current`: the accounts that are in effect; there is one application with accounts at most."""

    store: Store
    directory: UserDirectory
    verifier: Verifier
    sessions: Sessions
    clock: Clock
    loop: asyncio.AbstractEventLoop
    executor: Executor | None = None
    outbox: Outbox | None = None
    hash_function: str = DEFAULT_HASH_FUNCTION
    minimum_length: int = DEFAULT_MIN_LENGTH
    address: str = ""
    failure_delay: bool = True
    token_id: Callable[[str], str | None] = lambda token: None
    identity: str = ""
    is_alive: Callable[[str], bool] = lambda identity: False
    tell: Callable[[str, Any], None] = lambda topic, value: None
    warn: Callable[[str], None] = lambda text: None
    keys: Path = Path("keys")
    current: Accounts | None = None
    tasks: set[asyncio.Task[Any]] = field(default_factory=set)

    def start(self, work: Any) -> None:
        """Run a coroutine beside the requests."""
        task = self.loop.create_task(work)
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)
