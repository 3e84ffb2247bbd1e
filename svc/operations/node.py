"""What operations work on: the parts of the running node, by name. Made by `server`, and by tests without one."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

from svc.clock import Clock
from svc.deploying.layout import AREA
from svc.operations.job_records import CANCEL_JOB
from svc.operations.status_board import CHANGES, RECORDS, StatusBoard
from svc.store.system import DEPLOYMENT_TABLE, SYSTEM

if TYPE_CHECKING:
    from svc.accounts.directory import Accounts
    from svc.analytics import Analytics
    from svc.analytics.exposition import Family
    from svc.api.statements import Statements
    from svc.apps import App
    from svc.auth.sessions import Sessions
    from svc.auth.tokens import Tokens
    from svc.auth.users import UserDirectory
    from svc.auth.verifier import Verifier
    from svc.config import Config
    from svc.content.registry import ContentTypes
    from svc.logs import Logs
    from svc.mail.outbox import Outbox
    from svc.mail.service import MailService
    from svc.operations.deployments import Deployments
    from svc.operations.job_runs import Jobs
    from svc.operations.replication_control import ReplicationControl
    from svc.operations.search_cache import SearchCache
    from svc.operations.shared_loads import SharedLoads
    from svc.operations.system_information import Machine
    from svc.operations.uploads import Uploads
    from svc.resources import Resources
    from svc.scheduler import Scheduler
    from svc.siblings import Answer, Siblings
    from svc.store import Store

ANSWER_SECONDS: Final = 1.0  # for which an operation waits for the answers of other processes


RUNNING = "a deployment that is under way"
"""Asked of other processes with its id: how many events it has noted, and its record, or None."""


async def _nothing_to_reload() -> list[str]:
    return []


@dataclass
class Node:
    """`executor`: helper threads for what blocks. `restart(in_place)`: renew the instance after the answers under way; True: only components and
    listeners. `reload`: loads all applications in place, and returns what failed, a sentence each. `apps`: live list of the loaded applications.
    `instance`: number of this one. `scheduler`: of the jobs of applications. `addresses`: of the open ports, for `applications` and `operations`.
    `statements`: runs SQL. `more_families`: what `/metrics` shows besides. `replication`: with other nodes, None without a section `replication`.
    `siblings`: the other processes over the databases. `find_mail`: mail of this instance, None if it is not configured.

    What only operations have is made when the first of them asks for it."""

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
    siblings: Siblings
    analytics: Analytics | None = None
    apps: Sequence[App] = ()
    restart: Callable[[bool], None] = lambda in_place: None
    reload: Callable[[], Awaitable[list[str]]] = _nothing_to_reload
    instance: int = 0
    scheduler: Scheduler | None = None
    addresses: Callable[[], Mapping[str, Sequence[str]]] = dict
    statements: Statements | None = None
    more_families: Callable[[], Sequence[Family]] = tuple
    replication: ReplicationControl | None = None
    find_mail: Callable[[], MailService | None] = lambda: None

    @property
    def mail(self) -> Outbox | None:
        """What mails are added to; None: mail is not configured."""
        service = self.find_mail()
        return None if service is None else service.outbox

    def answer_siblings(self) -> None:
        """From now on this process answers what others ask it."""
        from svc.operations.database_use import HOLDER, maybe_holder
        from svc.operations.status_board import EDITED

        self.loads.answer_siblings()
        self.siblings.answer(EDITED, self._configuration_edited)
        self.siblings.answer(
            RUNNING, lambda deployment_id: self.deployments.running_here(deployment_id) if "deployments" in self.__dict__ else None
        )
        self.siblings.answer(HOLDER, lambda database: maybe_holder(self.apps, self.resources, database))
        self.siblings.answer(CANCEL_JOB, lambda value: "jobs" in self.__dict__ and self.jobs.cancel_here(*value))

    def _configuration_edited(self, file: str) -> None:
        from svc.operations.edited_configuration import note_edited

        self._start(note_edited(self, file))

    def _start(self, work: Coroutine[Any, Any, None]) -> None:
        task = self.loop.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    @cached_property
    def _tasks(self) -> set[asyncio.Task[None]]:
        return set()

    @cached_property
    def jobs(self) -> Jobs:
        from svc.operations.job_runs import Jobs

        return Jobs(self)

    @cached_property
    def uploads(self) -> Uploads:
        from svc.operations.uploads import Uploads

        return Uploads(self.config.root, self.clock)

    @cached_property
    def machine(self) -> Machine:
        from svc.operations.system_information import Machine

        settings = self.config.operations_api.sys_info
        return Machine(self.clock, self.config.root, settings.disk, settings.network, lambda: dict.fromkeys((os.getpid(), self.main_pid)))

    @property
    def main_pid(self) -> int:
        """Of the process that signals are for: the parent of this one, or this one."""
        return os.getpid() if self.status.restarts is None else os.getppid()

    @property
    def accounts(self) -> Accounts | None:
        """Those of the application that has some; None: no application has."""
        entries = [app.loaded("accounts") for app in self.apps]
        return next((accounts for entry in entries if (accounts := getattr(entry, "accounts", None)) is not None), None)

    @cached_property
    def searches(self) -> SearchCache:
        from svc.operations.search_cache import SearchCache

        return SearchCache()

    @cached_property
    def loads(self) -> SharedLoads:
        from svc.operations.shared_loads import SharedLoads

        return SharedLoads(self)

    @cached_property
    def deployments(self) -> Deployments:
        from svc.operations.deployments import Deployments

        return Deployments(self)

    @property
    def name(self) -> str:
        """Of this node."""
        return self.config.node_name

    async def ask_others(self, topic: str, value: Any) -> list[Answer]:
        """The answers of the other instances, one of each number, in their order; after ANSWER_SECONDS with an error for those that have not answered.

        Of two processes with the same number one is put in the place of the other: the newer one stands for both, and this one for its number.
        """
        answers = await self.siblings.ask(topic, value, ANSWER_SECONDS)
        answers.sort(key=lambda answer: answer.started)
        found = {each.number: each for each in answers if each.number != self.instance}
        return [found[number] for number in sorted(found)]

    def tell_others(self, topic: str, value: Any) -> None:
        """To all other instances, without waiting for them."""
        self.siblings.tell(topic, value)

    async def open_siblings(self) -> None:
        """This process is asked and told by others, and has the statuses that they have. Raises OSError."""
        siblings = self.siblings
        siblings.answer(CHANGES, self.status.change)
        siblings.answer(RECORDS, lambda _: self.status.records())
        await siblings.open()
        for answer in await self.ask_others(RECORDS, None):
            self.status.change(answer.value or ())
        if self.status.restarts is not None and self.status.restarts.begins_restart:
            self.end_statuses()

    def end_statuses(self) -> None:
        """They do not survive a restart of the node, in which an instance takes over those of another."""
        gone = [{"id": record["id"]} for record in self.status.records()]
        self.status.change(gone)
        self.tell_others(CHANGES, gone)

    async def recover_deployments(self) -> None:
        """Finish or undo what deployments have left, before the applications are loaded. Nothing is to be done where there never was one."""
        if self._has_deployments or self.config.components:
            await self.deployments.recover()

    @property
    def _has_deployments(self) -> bool:
        table = self.store.databases[SYSTEM].tables[DEPLOYMENT_TABLE]
        return any(True for _ in table.scan(table.database.snapshot())) or (self.config.components_root / AREA).is_dir()

    def owner_left(self, identity: str) -> None:
        """Another process has ended: finish or undo its deployments."""
        if self._has_deployments:
            self._start(self.deployments.recover_left())

    @property
    def projects_changing(self) -> list[str]:
        """That this process is changing."""
        return self.deployments.changing_here if "deployments" in self.__dict__ else []

    @property
    def entries_in_effect(self) -> Mapping[str, Any]:
        """Of projects in the configuration that are in effect though it was read before."""
        return self.deployments.entries

    def take_entry(self, project: str, entry: Mapping[str, Any] | None) -> None:
        """The entry of a project in the configuration, for its next load."""
        self.deployments.take_entry(project, entry)

    async def stop_deployments(self) -> None:
        """The instance ends: cancel those that are not decided, wait for the others."""
        if "deployments" in self.__dict__:
            await self.deployments.stop()

    async def stop_jobs(self) -> None:
        """The instance ends: cancel its jobs, and wait until they have reported how they ended."""
        if "jobs" in self.__dict__:
            await self.jobs.stop()
        if "uploads" in self.__dict__:
            await self.loop.run_in_executor(self.executor, self.uploads.remove_own)
