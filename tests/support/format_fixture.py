"""Makes an archive of tests/fixtures/formats with the program of this checkout:

    python -m tests.support.format_fixture tests/fixtures/formats/NUMBER.tar.xz

To be done before the format of the data directory, or of backups, changes, and committed: tests/integration/test_formats.py opens and restores it with every
version that comes then.
"""

from __future__ import annotations

import io
import json
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path
from typing import Any

import httpx

from tests.integration.conftest import PASSWORD
from tests.support.mqtt_clients import Client, MqttServer

SCHEMA = """
type Item @table @export {
  id: ID @primaryKey
  name: String @indexed
  price: Float @indexed
  tags: [String] @indexed
  due: Date
  stock: Int
  picture: Blob
  text: String
  made: Long @createdTime
}
type Short @table(expiration: 1000000000) @export { id: Long @primaryKey word: String }
"""
TRACE = {"traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"}


def write(client: httpx.Client) -> None:
    """Every kind of entry and record: long and short ones, one that came back, increments, changes, an expiring one, a blob, keys of both types."""

    def ask(method: str, path: str, **given: Any) -> None:
        client.request(method, path, **given).raise_for_status()

    for n in range(12):
        text = "some words, again and again; " * (n * 12)
        due = f"2026-01-{n + 1:02d}T12:00:00Z"
        ask(
            "PUT",
            f"/Item/i{n}",
            json={"name": f"Item {n}", "price": n / 4, "tags": ["a", f"t{n % 3}"], "due": due, "stock": n, "text": text},
        )
    ask("PUT", "/Item/i3", json={"name": "changed", "price": -1.5, "tags": [], "text": "x" * 3000, "stock": 1}, headers=TRACE)
    ask("PATCH", "/Item/i4", json={"stock": {"__op__": "add", "value": 5}, "name": None})
    ask("PATCH", "/Item/i11", json={"text": "some words, again and once; " * 200})
    ask("DELETE", "/Item/i5", headers=TRACE)
    ask("DELETE", "/Item/i6")
    ask("PUT", "/Item/i6", json={"name": "came back", "price": 6})
    ask("POST", "/Item/", json={"name": "made"})
    ask("PUT", "/Item/%E2%82%AC%2Fslash", json={"name": "\u00e9t\u00e9 \U0001f600", "price": 1e300})
    for number in (1, 2, 40):
        ask("PUT", f"/Short/{number}", json={"word": f"w{number}"})
    ask("POST", "/Short/", json={"word": "numbered"})
    ask("PUT", "/Item/pic", json={"name": "with a blob"})
    ask("PUT", "/Item/pic/picture", content=b"blob " * 3000, headers={"Content-Type": "text/plain"})


def make(path: Path, place: Path) -> None:
    server = MqttServer(place, SCHEMA)
    server.start()
    try:
        with (
            httpx.Client(base_url=server.url, auth=("admin", PASSWORD), trust_env=False) as client,
            httpx.Client(base_url=server.operations_url, auth=("admin", PASSWORD), trust_env=False) as operations,
        ):
            write(client)
            publisher = Client(server, "fixture")
            publisher.publish("Item/mqtt", json.dumps({"name": "by mqtt", "price": 2.5}), 1)
            publisher.close()

            def operation(name: str, **fields: Any) -> httpx.Response:
                return operations.post("/", json={"operation": name, **fields}).raise_for_status()

            operation("add_user", username="ann", password="An0ther good one", role="super_user", active=True)
            expected = {
                "commit": subprocess.run(
                    ["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=True
                ).stdout.strip(),
                "items": {item["id"]: {k: v for k, v in item.items() if k != "picture"} for item in client.get("/Item/").json()},
                "shorts": {str(short["id"]): short for short in client.get("/Short/").json()},
                "picture": client.get("/Item/pic/picture").text,
                "history": {
                    table: [
                        [entry["operation"], entry["hash_values"]]
                        for entry in operation("read_transaction_log", table=table, limit=1000).json()
                    ]
                    for table in ("Item", "Short")
                },
            }
            backup = operation("get_backup", database="data").content
    finally:
        server.stop()
    with tarfile.open(path, "w:xz", preset=9) as tar:
        _add(tar, "expected.json", json.dumps(expected, ensure_ascii=False).encode())
        _add(tar, "backup.tar", backup)
        for part in ("database", "blobs"):
            for file in sorted((server.root / part).rglob("*")):
                if file.is_file() and (part == "blobs" or file.name == "data.mdb"):
                    _add(tar, str(file.relative_to(server.root)), file.read_bytes())


def _add(tar: tarfile.TarFile, name: str, content: bytes) -> None:
    member = tarfile.TarInfo(name)
    member.size = len(content)
    tar.addfile(member, io.BytesIO(content))


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as scratch:
        make(Path(sys.argv[1]), Path(scratch))
