"""The code of this application: `svc dev .` takes it over when it is saved."""

from collections.abc import Mapping
from typing import Any

#% if accounts %#
from svc import ClientError, RequestTarget, Resource, get_user, tables
#% else %#
from svc import ClientError, RequestTarget, Resource, tables
#% endif %#


class Task(tables.Task):
    """/Task/: the table with a rule and an action. The table is not exported."""

    def validate(self, record: Mapping[str, Any], partial: bool = False) -> None:
        super().validate(record, partial)
        title = record.get("title")
        if isinstance(title, str) and not title.strip():
            raise ClientError("a task needs a title", 422)

    @classmethod
    async def post(cls, target: RequestTarget, data: Any) -> Any:
        """POST /Task/<id>: the task is done. POST /Task/: a new one."""
        if target.id is None:
#% if accounts %#
            user = get_user()
            if user is not None and isinstance(data, dict) and "owner" not in data:
                data["owner"] = user.username
#% endif %#
            return await super().post(target, data)
#% if accounts %#
        tasks = tables.Task.as_user(get_user())  # tables.Task has the tasks of all: code is trusted
        if await tasks.get(target.id) is None:
            raise ClientError(f"there is no task {target.id}", 404)
        await tasks.patch(target.id, {"done": True})
        return {"id": target.id, "done": True}
#% else %#
        task = await cls.update(target.id)
        if not task.does_exist():
            raise ClientError(f"there is no task {target.id}", 404)
        task.done = True
        return {"id": task.get_id(), "done": task.done}
#% endif %#


class Progress(Resource):
    """/Progress: how much of each list is done."""

    def allow_read(self, user: Any, target: RequestTarget) -> bool:
        return user is not None

    async def get(self) -> dict[str, dict[str, int]]:
        found: dict[str, dict[str, int]] = {}
#% if accounts %#
        async for task in tables.Task.as_user(get_user()).search({"sort": {"attribute": "listName"}}):
            counts = found.setdefault(task.listName or "other", {"open": 0, "done": 0})
            counts["done" if task.done else "open"] += 1
#% else %#
        async for task in tables.Task.search({"sort": {"attribute": "listName"}}):
            counts = found.setdefault(task.listName or "other", {"open": 0, "done": 0})
            counts["done" if task.done else "open"] += 1
#% endif %#
        return found
