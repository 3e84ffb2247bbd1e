"""A node for tests of operations: real store, users and configuration on a loop of its own; no sockets, no process."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from svc.auth.roles import Role
from svc.auth.sessions import Sessions
from svc.auth.tokens import Tokens
from svc.auth.users import User, UserDirectory
from svc.auth.verifier import Verifier
from svc.clock import FakeClock
from svc.config import Config
from svc.content.registry import ContentTypes
from svc.http.found_rows import gather_rows
from svc.logs import Logs
from svc.loop import new_loop
from svc.messages import Request
from svc.operations.node import Node
from svc.operations.service import Operations
from svc.operations.status_board import StatusBoard
from svc.query.execution import execute
from svc.resources import PlannedQuery, Resources
from svc.resources.resource import StreamedRows
from svc.store.writing.commit import wait_committed
from svc.testing.loop import Pool
from tests.support.prepared import open_prepared
from tests.support.sibling_world import SiblingWorld


def with_short_passwords(settings: dict[str, Any] | None) -> dict[str, Any]:
    """The settings of `authentication`; the users of tests may have short passwords unless the length is what is tested."""
    return {"authentication": {"passwordMinLength": 1, **(settings or {}).get("authentication", {})}}


class OperationsNode:
    """`run("insert", table=..., records=...)` does what a request of `user` does (default: the super user) and returns the 200 body.

    A Problem is raised as it is: `.status_code`, `.message`, a Refusal's `.body`. Use as a context manager, or call `close`.
    """

    def __init__(
        self, path: Path, *, clock: FakeClock | None = None, settings: dict[str, Any] | None = None, world: SiblingWorld | None = None
    ) -> None:
        """`world`: of the processes over its directory; by default it is alone."""
        self.clock = FakeClock() if clock is None else clock
        self.world = SiblingWorld() if world is None else world
        self.root = path
        self.config = Config.from_document({**(settings or {}), **with_short_passwords(settings)}, path)
        self.loop, selector = new_loop(self.clock)
        self.executor = Pool()
        self.store = open_prepared(path / "database", clock=self.clock)
        self.directory = UserDirectory(self.store)
        admin = self.directory.get_user("admin")
        assert admin is not None
        self.admin: User = admin
        self.logs = Logs(self.clock)
        verifier = Verifier(self.directory, clock=self.clock, failure_delay=False)  # wrong passwords are answered at once
        sessions = Sessions.from_config(self.config, self.store, self.directory, self.clock, verifier=verifier, executor=self.executor)
        self.node = Node(
            store=self.store,
            config=self.config,
            clock=self.clock,
            loop=self.loop,
            executor=self.executor,
            logs=self.logs,
            directory=self.directory,
            verifier=verifier,
            resources=Resources(),
            types=ContentTypes.built_in(),
            tokens=Tokens.from_config(self.config, self.directory, self.clock, executor=self.executor, bits=2048),
            sessions=sessions,
            status=StatusBoard(self.clock),
            siblings=self.world.start(),
        )
        self.node.answer_siblings()
        self.node.loads.is_open = True
        self.store.on_drop.append(self.node.resources.remove_table)
        self.operations = Operations(self.node)

        def end_turn() -> bool:
            committed = self.store.has_pending
            if committed:
                self.store.commit_turn()
            self.store.end_turn()
            return committed  # who waits for it runs in the next turn

        selector.end_turn = end_turn

    def __enter__(self) -> OperationsNode:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self.loop.run_until_complete(self._end_tasks())
        self.loop.close()
        self.store.close()
        self.executor.shutdown()

    async def _end_tasks(self) -> None:
        tasks = asyncio.all_tasks() - {asyncio.current_task()}
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    # --- asking ------------------------------------------------------------------------------------------------------------------------

    def run(self, operation: str, user: User | None = None, **fields: Any) -> Any:
        return self.send({"operation": operation, **fields}, self.admin if user is None else user)

    def send(self, body: Any, user: User | None, request: Request | None = None) -> Any:
        """The result for a whole body; `user` None: nobody has logged in; `request`: that it came with. Rows of a query come as a list."""
        return self.wait(lambda: self._send(body, user, request))

    async def _send(self, body: Any, user: User | None, request: Request | None = None) -> Any:
        call = self.operations.prepare(body, user, request)
        result = self.operations.run(call)
        if inspect.isawaitable(result):
            result = await result
        if call.pending_commit is not None:
            await wait_committed(call.pending_commit)
        if isinstance(result, StreamedRows):
            return await gather_rows(result)
        if isinstance(result, PlannedQuery):
            run = execute(result.plan, result.table.database.snapshot(), json=True)
            found: list[Any] = []
            while not run.done:
                found += run.step(1000)
            run.close()
            from svc.store.values.records import decode_json

            visible = result.visible
            records = [decode_json(row) if isinstance(row, bytes) else row for row in found]
            if visible is None or result.plan.is_shaped:
                return records
            return [{name: value for name, value in record.items() if name in visible} for record in records]
        return result

    def wait(self, work: Callable[[], Awaitable[Any]]) -> Any:
        """Run something on the node's loop until it is done."""

        async def run() -> Any:
            return await work()

        return self.loop.run_until_complete(run())

    def finished(self, started: dict[str, Any]) -> dict[str, Any]:
        """The record of a job that an operation has started, when it has ended."""

        async def wait() -> None:
            tasks = [job.task for job in self.node.jobs._jobs.values()]
            await asyncio.gather(*[task for task in tasks if task is not None])

        self.wait(wait)
        [record] = self.run("get_job", id=started["job_id"])
        return record  # type: ignore[no-any-return]

    def user(self, name: str, permission: dict[str, Any], *, active: bool = True) -> User:
        """A user with a role of this permission, without storing either."""
        return User(name, active, Role(name, name, permission, databases=self.store.databases))
