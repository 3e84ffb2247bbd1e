"""svc.operations.accounts, call: what code writes by operations within a transaction is part of that transaction."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from svc.api.context import Context
from svc.api.transactions import TransactionFunction, open_transaction
from svc.errors import ClientError, Problem
from tests.support.operations import OperationsNode

PASSWORD = "correct horse battery staple"


class Code:
    """Code of an application: `operate` is its `server.operation`, `transaction` what it imports."""

    def __init__(self, node: OperationsNode) -> None:
        self.node = node
        self.context = Context()
        self.store = node.store
        self.transaction = TransactionFunction(lambda: self)  # type: ignore[arg-type, return-value]

    async def operate(self, operation: str, **fields: Any) -> Any:
        from svc.api.context import current_context

        return await self.node.operations.perform({"operation": operation, **fields}, joined=open_transaction(current_context()))

    def has_user(self, name: str) -> bool:
        return self.node.directory.get_user(name) is not None


@pytest.fixture
def code(tmp_path: Path) -> Iterator[Code]:
    with OperationsNode(tmp_path) as node:
        node.run("create_table", table="plant", primary_key="id")
        yield Code(node)


def run(code: Code, work: Callable[[Code], Awaitable[None]]) -> None:
    code.node.wait(lambda: work(code))


def test_a_refused_sign_up_leaves_nothing(code: Code) -> None:
    async def work(code: Code) -> None:
        with pytest.raises(ClientError):
            async with code.transaction():
                await code.operate("add_role", role="member", permission={})
                await code.operate("add_user", username="ann", password=PASSWORD, role="member", active=True)
                await code.operate("insert", table="plant", records=[{"id": "p"}])
                raise ClientError("no", 409)

    run(code, work)
    assert not code.has_user("ann") and code.node.directory.role_named("member", None) is None
    assert code.node.run("search_by_id", table="plant", ids=["p"], get_attributes=["id"]) == []


def test_what_is_written_together_is_there_together(code: Code) -> None:
    async def work(code: Code) -> None:
        async with code.transaction():
            await code.operate("add_role", role="member", permission={})
            await code.operate("add_user", username="ann", password=PASSWORD, role="member", active=True)
            assert not code.has_user("ann"), "not before the commit"
            with pytest.raises(Problem) as raised:
                await code.operate("add_user", username="ann", password=PASSWORD, role="member", active=True)
            assert raised.value.status_code == 409
            with pytest.raises(Problem):
                await code.operate("drop_role", id="member")
            await code.operate("alter_user", username="ann", active=False)

    run(code, work)
    user = code.node.directory.get_user("ann")
    record = code.node.directory.user_record("ann")
    assert user is not None and not user.active and record is not None and record["role"] == "member"


def test_records(code: Code) -> None:
    async def work(code: Code) -> None:
        await code.operate("insert", table="plant", records=[{"id": "a", "height": 1}])
        async with code.transaction():
            answer = await code.operate("insert", table="plant", records=[{"id": "a"}, {"id": "b"}, {"height": 3}])
            assert answer["skipped_hashes"] == ["a"] and answer["inserted_hashes"][0] == "b" and len(answer["inserted_hashes"]) == 2
            assert (await code.operate("update", table="plant", records=[{"id": "b", "height": 2}, {"id": "c"}]))["skipped_hashes"] == ["c"]
            assert (await code.operate("delete", table="plant", ids=["a", "x"]))["deleted_hashes"] == ["a"]
            found = await code.operate(
                "search_by_conditions",
                table="plant",
                conditions=[{"search_attribute": "height", "search_type": "greater_than", "search_value": 1}],
                get_attributes=["id"],
            )
            assert len(found) == 2
            assert [row["id"] for row in await code.operate("search_by_id", table="plant", ids=["a", "b"], get_attributes=["id"])] == ["b"]
        assert len(await code.operate("search_by_value", table="plant", attribute="id", value="*", get_attributes=["id"])) == 2

    run(code, work)


def test_others_write_between_the_call_and_the_commit(code: Code) -> None:
    async def work(code: Code) -> None:
        with pytest.raises(Problem) as raised:
            async with code.transaction():
                await code.operate("add_user", username="ann", password=PASSWORD, role="super_user", active=True)
                await code.node.operations.perform(
                    {"operation": "add_user", "username": "ann", "password": PASSWORD, "role": "super_user", "active": False}
                )
        assert raised.value.status_code == 409

    run(code, work)
    user = code.node.directory.get_user("ann")
    assert user is not None and not user.active


def test_rights_that_others_have_granted_meanwhile_are_kept(code: Code) -> None:
    async def work(code: Code) -> None:
        grant = {"operation": "grant", "role": "reader", "on": "data.plant"}
        with pytest.raises(Problem) as raised:
            async with code.transaction():
                await code.operate("grant", role="reader", rights=["read"], on="data.plant")
                await code.node.operations.perform({**grant, "rights": ["insert"]})
        assert raised.value.status_code == 409
        role = code.node.directory.role_named("reader", None)
        assert role is not None and role["permission"]["data"]["tables"]["plant"]["insert"] is True

    run(code, work)


def test_what_cannot_join_takes_effect_at_once(code: Code) -> None:
    async def work(code: Code) -> None:
        with pytest.raises(ClientError):
            async with code.transaction():
                await code.operate("create_table", table="tree", primary_key="id")
                raise ClientError("no", 409)

    run(code, work)
    assert "tree" in code.store.databases["data"].tables
