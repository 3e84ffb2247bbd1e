"""Operations over the store of an application of tests, so that its pages can run them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

from svc.auth.sessions import Sessions
from svc.auth.tokens import Tokens
from svc.auth.users import UserDirectory
from svc.auth.verifier import Verifier
from svc.config import Config
from svc.logs import Logs
from svc.operations.node import Node
from svc.operations.service import Operations
from svc.operations.status_board import StatusBoard
from svc.testing.loop import Pool
from tests.support.application import Application
from tests.support.sibling_world import SiblingWorld


def with_operations(site: Application, root: Path) -> Node:
    """From now on the pages of `site` run operations. `root`: of the installation."""
    node, clock = site.node, site.node.clock
    config = Config.from_document({}, root)
    directory = UserDirectory(node.store)
    verifier = Verifier(directory, clock=clock, failure_delay=False)
    executor = Pool()
    made = Node(
        store=node.store,
        config=config,
        clock=clock,
        loop=node._loop,
        executor=executor,
        logs=Logs(clock),
        directory=directory,
        verifier=verifier,
        resources=node.resources,
        types=node.types,
        tokens=Tokens.from_config(config, directory, clock, executor=executor, bits=2048),
        sessions=Sessions.from_config(config, node.store, directory, clock, verifier=verifier, executor=executor),
        status=StatusBoard(clock),
        siblings=SiblingWorld().start(),
    )
    operations = Operations(made)
    node.rest.use_operations(lambda body, user: operations.perform(body, user, authorize=True))
    return made


class InlineWorker:
    """In place of `load_sources.Worker`: a node of tests has no way to wait for its thread."""

    async def run(self, work: Callable[[], Any]) -> Any:
        return work()

    def end(self, last: Callable[[], object] | None = None) -> None:
        if last is not None:
            last()


def end_jobs(site: Application, node: Node) -> None:
    """Wait until all jobs have ended."""

    async def wait() -> None:
        while len(node.jobs):  # noqa: ASYNC110 - nothing tells of it
            await asyncio.sleep(0)

    site.run(wait(), 1_000_000)
