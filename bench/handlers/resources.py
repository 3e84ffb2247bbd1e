"""One handler in each way of writing it. Each answers what the exported table answers."""

import os
import time

from svc import Resource, server, tables


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


class Spend(Resource):
    """Takes as many microseconds of processor time as its id says."""

    def get(self, target):
        end = time.thread_time() + int(target.id) * 1e-6
        while time.thread_time() < end:
            pass
        return {"spent": target.id}
