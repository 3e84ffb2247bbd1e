"""One handler in each way of writing it. Each answers what the exported table answers."""

import os

from svc import server, tables


class Instance(tables.Item):
    def get(self, query=None):
        return super().get(query)


class Changed(tables.Item):
    def get(self, query=None):
        self.total = self.price * 2
        return super().get(query)


class Target(tables.Item):
    load_as_instance = False

    def get(self, target):
        return super().get(target)


class Class(tables.Item):
    @classmethod
    def get(cls, target):
        return super().get(target)


class Async(tables.Item):
    async def get(self, query=None):
        return super().get(query)


class Awaiting(tables.Item):
    @classmethod
    async def get(cls, target):
        return await tables.Item.get(target.id)


class Source:
    async def get(self, id, context):
        return {**await tables.Item.get(id)}


tables.Cached.source_from(Source())

if os.environ.get("BENCH_FASTAPI"):
    from fastapi import FastAPI

    api = FastAPI()

    @api.get("/item/{id}")
    async def read_item(id: str):
        return {**await tables.Item.get(id)}

    server.mount("/api", api)
