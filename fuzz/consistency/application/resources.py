import asyncio

from svc import ClientError, Resource, tables


class Work(Resource):
    """POST /Work/: what the body says, in one transaction: `put` and `add` records of Item, `members` of a list, and `fail` at the end."""

    async def post(self, data):
        for key, value in data.get("put", {}).items():
            await tables.Item.put(key, value)
        for key, value in data.get("add", {}).items():
            await tables.Item.patch(key, {**value, "count": {"__op__": "add", "value": value["count"]}})
        await asyncio.sleep(0)
        for member in data.get("members", ()):
            await tables.Member.put(member["id"], member)
        if data.get("fail"):
            raise ClientError("as it was asked to", 400)
        return {"done": True}
