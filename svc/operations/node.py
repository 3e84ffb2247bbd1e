"""What operations work on: the parts of the running node, by name. Made by `server`, and by tests without one."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from svc.clock import Clock
from svc.operations.deployments import Deployments
from svc.operations.job_runs import Jobs
from svc.operations.search_cache import SearchCache
from svc.operations.system_information import Machine

if TYPE_CHECKING:
    from svc.analytics import Analytics
    from svc.apps import App
    from svc.auth.sessions import Sessions
    from svc.auth.tokens import Tokens
    from svc.auth.users import UserDirectory
    from svc.auth.verifier import Verifier
    from svc.config import Config
    from svc.content.registry import ContentTypes
    from svc.logs import Logs
    from svc.operations.status_board import StatusBoard
    from svc.resources import Resources
    from svc.scheduler import Scheduler
    from svc.store import Store


async def _nothing_to_reload() -> list[str]:
    return []


@dataclass(slots=True)
class Node:
    """`executor`: helper threads for what blocks. `restart(in_place)`: renew the instance after the answers under way; True: only components and
    listeners. `reload`: loads all applications in place, and returns what failed, a sentence each. `apps`: live list of the loaded applications.
    `instance`: number of this one. `scheduler`: of the jobs of applications. `addresses`: of the open ports, for `applications` and `operations`."""

    store: Store
    config: Config
    clock: Clock
    loop: asyncio.AbstractEventLoop
    executor: Executor
    logs: Logs
    directory: UserDirectory
    verifier: Verifier
    resources: Resources
    types: ContentTypes
    tokens: Tokens
    sessions: Sessions
    status: StatusBoard
    analytics: Analytics | None = None
    apps: Sequence[App] = ()
    restart: Callable[[bool], None] = lambda in_place: None
    reload: Callable[[], Awaitable[list[str]]] = _nothing_to_reload
    instance: int = 0
    scheduler: Scheduler | None = None
    addresses: Callable[[], Mapping[str, Sequence[str]]] = dict
    jobs: Jobs = field(init=False)
    machine: Machine = field(init=False)
    searches: SearchCache = field(init=False)
    deployments: Deployments = field(init=False)

    def __post_init__(self) -> None:
        self.jobs = Jobs(self)
        self.searches = SearchCache()
        self.deployments = Deployments(self)
        disk, network = self.config.operations_api.sys_info.disk, self.config.operations_api.sys_info.network
        self.machine = Machine(self.clock, self.config.root, disk, network)

    @property
    def name(self) -> str:
        """Of this node (`node.hostname`)."""
        return self.config.node.hostname
