"""Mixed work for `bench.soak`: each kind of it is a coroutine that repeats one step with a pause, until it is cancelled.

REST, GraphQL, SQL, MQTT, imports, subscriptions that stay and that come and go, reloads and backups, each by a client that is not svc's own. Steps are paced,
not as fast as possible: how much is answered tells nothing here, only whether it stays the same.
"""

from __future__ import annotations

import asyncio
import base64
import csv
import io
import json
import tarfile
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import partial
from itertools import count
from typing import Any

import aiomqtt
import httpx
import websockets

from bench import records
from bench.servers import Svc

KEYS = 20_000  # records of Item that are written to; all others stay as they are
IMPORT_ROWS = 5_000
PATIENCE = 60.0  # seconds for an answer, a job, a message
PAUSE_AFTER_FAILURE = 0.5
FOLLOWERS = 20  # of each kind, for as long as the run takes
TOLD = 200  # characters of a failure


class Failure(Exception):
    """An answer that is not the right one."""


class Load:
    """All work on one server. `done`: steps of each kind so far; `failed`: the texts of steps that did not work, and how often."""

    def __init__(self, server: Svc, operations_port: int, mqtt_port: int) -> None:
        self._server = server
        self._mqtt_port = mqtt_port
        self._urls = {"http": f"http://127.0.0.1:{server.port}", "operations": f"http://127.0.0.1:{operations_port}"}
        self._login = httpx.BasicAuth("admin", server.password)
        self.done: Counter[str] = Counter()
        self.failed: Counter[str] = Counter()

    async def run(self) -> None:
        """Until it is cancelled."""
        async with self._client("http") as http, self._client("operations") as operations, asyncio.TaskGroup() as tasks:
            steps: tuple[tuple[str, float, Callable[[int], Awaitable[None]]], ...] = (
                ("read", 0.01, partial(self._read, http)),
                ("write", 0.01, partial(self._write, http)),
                ("create and delete", 0.05, partial(self._create, http)),
                ("GraphQL", 0.05, partial(self._graphql, http)),
                ("SQL", 0.1, partial(self._sql, http)),
                ("operation", 0.1, partial(self._operation, operations)),
                ("import", 20, partial(self._import, operations)),
                ("reload", 20, partial(self._reload, operations)),
                ("backup", 60, partial(self._backup, operations)),
                ("subscription that ends", 0.5, self._follow_briefly),
                ("MQTT connection", 0.5, self._connect),
            )
            for name, seconds, step in steps:
                tasks.create_task(self._repeat(name, seconds, step))
            tasks.create_task(self._stay("MQTT message", self._publish))
            for number in range(FOLLOWERS):
                tasks.create_task(self._stay("event by SSE", partial(self._follow_sse, number)))
                tasks.create_task(self._stay("event by WebSocket", partial(self._follow_websocket, number)))
                tasks.create_task(self._stay("event by MQTT", partial(self._follow_mqtt, number)))

    def _client(self, port: str) -> httpx.AsyncClient:
        return httpx.AsyncClient(base_url=self._urls[port], auth=self._login, timeout=PATIENCE, trust_env=False)

    async def _repeat(self, name: str, pause: float, step: Callable[[int], Awaitable[None]]) -> None:
        for number in count():
            try:
                await step(number)
                self.done[name] += 1
            except (Failure, httpx.HTTPError, OSError, aiomqtt.MqttError, websockets.WebSocketException, TimeoutError) as error:
                self._note(name, error)
            await asyncio.sleep(pause)

    async def _stay(self, name: str, follow: Callable[[str], Awaitable[None]]) -> None:
        """Begin again when the server or the network ends it, which counts as a failure."""
        while True:
            try:
                await follow(name)
                raise Failure("ended by the server")
            except (Failure, httpx.HTTPError, OSError, aiomqtt.MqttError, websockets.WebSocketException, TimeoutError) as error:
                self._note(name, error)
                await asyncio.sleep(PAUSE_AFTER_FAILURE)

    def _note(self, name: str, error: Exception) -> None:
        self.failed[f"{name}: {type(error).__name__} {error}"[:TOLD]] += 1

    # -- requests ----------------------------------------------------------

    async def _read(self, http: httpx.AsyncClient, number: int) -> None:
        price = number * 37 % KEYS
        targets = (
            f"/Item/{records.item_id(number % KEYS)}",
            f"/Item/?category=={records.category(number)}&sort(rank)",
            f"/Item/?price=ge={price}&lt={price + 20}",
            f"/Item/?category=={records.category(number)}&select(name,brand{{name}})",
            f"/Item/?price=lt={price}&count()",
        )
        self._check(await http.get(targets[number % len(targets)]), 200)

    async def _write(self, http: httpx.AsyncClient, number: int) -> None:
        record = records.item(number % KEYS, 1 + number // KEYS)
        if number % 4:
            self._check(await http.put(f"/Item/{record['id']}", json=record), 204)
        else:
            self._check(await http.patch(f"/Item/{record['id']}", json={"rank": number}), 204)

    async def _create(self, http: httpx.AsyncClient, number: int) -> None:
        record = {name: value for name, value in records.item(number).items() if name != "id"}
        made = self._check(await http.post("/Created/", json=record), 201)
        self._check(await http.delete(made.headers["Location"]), 204)

    async def _graphql(self, http: httpx.AsyncClient, number: int) -> None:
        query = "query Q($category: String) { Item(category: $category) { id name price brand { name } } }"
        answer = await http.post("/graphql", json={"query": query, "variables": {"category": records.category(number)}})
        if "errors" in self._check(answer, 200).json():
            raise Failure(answer.text)

    async def _sql(self, http: httpx.AsyncClient, number: int) -> None:
        statement = (
            "SELECT brandId, COUNT(*) AS n, AVG(price) AS mean FROM data.Item WHERE category = ? GROUP BY brandId ORDER BY n DESC",
            "SELECT i.name, b.name AS brand FROM data.Item AS i JOIN data.Brand AS b ON b.id = i.brandId WHERE i.category = ?",
        )[number % 2]
        self._check(await http.post("/sql", json={"sql": statement, "parameters": [records.category(number)]}), 200)

    # -- operations and jobs -----------------------------------------------

    async def _ask(self, operations: httpx.AsyncClient, name: str, **fields: Any) -> Any:
        return self._check(await operations.post("/", json={"operation": name, **fields}), 200).json()

    async def _operation(self, operations: httpx.AsyncClient, number: int) -> None:
        key = records.item_id(number % KEYS)
        if number % 2:
            await self._ask(operations, "search_by_id", database="data", table="Item", ids=[key], get_attributes=["*"])
        else:
            await self._ask(operations, "update", database="data", table="Item", records=[{"id": key, "rank": number}])

    async def _job(self, operations: httpx.AsyncClient, name: str, **fields: Any) -> Any:
        """Its record, when it has ended well."""
        job_id = (await self._ask(operations, name, **fields))["job_id"]
        async with asyncio.timeout(PATIENCE):
            while True:
                (job,) = await self._ask(operations, "get_job", id=job_id)
                if job["status"] == "COMPLETE":
                    return job
                if job["status"] == "ERROR":
                    raise Failure(str(job.get("message")))
                await asyncio.sleep(0.1)

    async def _import(self, operations: httpx.AsyncClient, number: int) -> None:
        """A load of new records, which are deleted by a query."""
        text = io.StringIO()
        rows = [records.item(n, number) for n in range(IMPORT_ROWS)]
        writer = csv.DictWriter(text, rows[0])
        writer.writeheader()
        writer.writerows(rows)
        await self._job(operations, "csv_data_load", database="data", table="Spare", action="upsert", data=text.getvalue())
        await self._ask(operations, "sql", sql="DELETE FROM data.Spare WHERE price >= 0")

    async def _reload(self, operations: httpx.AsyncClient, number: int) -> None:
        """Deploy another version of a small application, which all instances load."""
        out = io.BytesIO()
        source = f"class Version(Resource):\n    def get(self, target=None):\n        return {{'version': {number}}}\n".encode()
        with tarfile.open(fileobj=out, mode="w") as tar:
            for name, content in (("config.yaml", b"rest: true\nresources: resources.py\n"), ("resources.py", source)):
                member = tarfile.TarInfo(name)
                member.size = len(content)
                tar.addfile(member, io.BytesIO(content))
        payload = base64.b64encode(out.getvalue()).decode()
        await self._ask(operations, "deploy_component", project="soaked", payload=payload, restart=True)
        async with self._client("http") as http:
            if (answer := await http.get("/Version")).json() != {"version": number}:
                raise Failure(f"version {number}: {answer.text}")

    async def _backup(self, operations: httpx.AsyncClient, number: int) -> None:
        job = await self._job(operations, "create_backup", database="data")
        await self._ask(operations, "delete_backup", backup_id=job["result"]["backup_id"], database="data")

    # -- connections that stay, and that come and go -------------------------

    def _followed(self, number: int) -> str:
        return f"/Item/?category=={records.category(number)}" if number % 2 else f"/Item/{records.item_id(number)}"

    @asynccontextmanager
    async def _event_stream(self, number: int) -> AsyncIterator[httpx.Response]:
        async with self._client("http") as http:
            fields = {"Accept": "text/event-stream"}
            async with http.stream("GET", self._followed(number), headers=fields, timeout=httpx.Timeout(PATIENCE, read=None)) as response:
                self._check(response, 200)
                yield response

    async def _follow_sse(self, number: int, name: str) -> None:
        async with self._event_stream(number) as response:
            async for line in response.aiter_lines():
                self.done[name] += line.startswith("data:")

    async def _follow_briefly(self, number: int) -> None:
        async with self._event_stream(number) as response:
            async for line in response.aiter_lines():
                if line.startswith("data:"):
                    return

    async def _follow_websocket(self, number: int, name: str) -> None:
        url = f"ws://127.0.0.1:{self._server.port}{self._followed(number)}"
        async with websockets.connect(url, additional_headers=dict(self._server.fields), proxy=None) as socket:
            async for _ in socket:
                self.done[name] += 1

    def _mqtt_client(self, client_id: str) -> aiomqtt.Client:
        return aiomqtt.Client(
            "127.0.0.1", self._mqtt_port, username="admin", password=self._server.password, identifier=client_id, timeout=PATIENCE
        )

    async def _follow_mqtt(self, number: int, name: str) -> None:
        async with self._mqtt_client(f"follower-{number}") as client:
            await client.subscribe(f"Item/{records.item_id(number)}" if number % 2 else "Brand/#", qos=1)
            async for _ in client.messages:
                self.done[name] += 1

    async def _publish(self, name: str) -> None:
        async with self._mqtt_client("publisher") as client:
            for number in count():
                brand = number % 50
                await client.publish(
                    f"Brand/{records.brand_id(brand)}", json.dumps({**records.brand(brand), "name": f"Brand {number}"}), qos=1, retain=True
                )
                self.done[name] += 1
                await asyncio.sleep(0.05)

    async def _connect(self, number: int) -> None:
        async with self._mqtt_client(f"passer-by-{number}") as client:
            await client.subscribe(f"Brand/{records.brand_id(number % records.BRANDS)}", qos=1)

    def _check(self, response: httpx.Response, status: int) -> httpx.Response:
        if response.status_code != status:
            raise Failure(
                f"{response.request.method} {response.request.url.path}: {response.status_code} {response.text if response.is_closed else ''}"
            )
        return response
