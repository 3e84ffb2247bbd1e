"""Clients of one node each, which all write the same records, and what they were answered."""

from __future__ import annotations

import http.client
import itertools
import json
import random
import threading
from collections.abc import Mapping
from typing import Any, ClassVar, NamedTuple

from fuzz.consistency.transport import AUTHORIZATION, SECONDS
from fuzz.replication.nodes import Node

PAUSE = 0.02  # seconds at most between two calls
KEYS = 12  # records that all write
ERA = 2000  # calls after which they take other keys
SIZES = 10, 20_000, 300_000, 2_000_000  # bytes of a blob
NO_SPACE = 507
LONG = 700_000  # bytes of a text: more than a message of the engine has


class Write(NamedTuple):
    """`node`: where it was asked for. `n`: of no other write. `is_certain`: it was acknowledged, else it may have happened or not. `is_refused`: for want of
    space, so it has not happened."""

    node: str
    kind: str
    table: str
    key: str
    n: int
    is_certain: bool
    is_refused: bool = False


class Recorder:
    """What clients have done, and what no client may be answered."""

    def __init__(self) -> None:
        self.writes: list[Write] = []
        self.faults: list[str] = []
        self.answers = 0
        self.added: dict[str, list[int]] = {}
        """Of a counter: increments that were acknowledged, and those that may have happened."""
        self._numbers = itertools.count(1)
        self._lock = threading.Lock()

    def number(self) -> int:
        return next(self._numbers)

    def note(self, writes: list[Write]) -> None:
        with self._lock:
            self.writes += writes
            self.answers += 1
            for write in writes:
                if write.kind == "add" and not write.is_refused:
                    counts = self.added.setdefault(write.key, [0, 0])
                    counts[0 if write.is_certain else 1] += 1


class Client(threading.Thread):
    """`actions`: names of methods, each with a weight."""

    actions: ClassVar[Mapping[str, int]] = {
        "put": 6,
        "patch": 6,
        "add": 6,
        "delete": 2,
        "insert": 4,
        "both": 2,
        "long": 1,
        "tell": 4,
        "file": 1,
        "read": 2,
    }

    def __init__(self, number: int, seed: int, recorder: Recorder, node: Node) -> None:
        super().__init__(name=f"client-{number}-{node.name}", daemon=True)
        self.source = random.Random(f"{seed} {self.name}")
        self.recorder = recorder
        self.node = node
        self.is_over = threading.Event()
        self.failure: BaseException | None = None
        self._connection: http.client.HTTPConnection | None = None

    def run(self) -> None:
        names, weights = list(self.actions), list(self.actions.values())
        try:
            while not self.is_over.wait(self.source.random() * PAUSE):
                if self.node.is_up:
                    getattr(self, self.source.choices(names, weights)[0])()
        except BaseException as error:
            self.failure = error
            raise
        finally:
            self._close()

    def _close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _ask(self, method: str, path: str, body: Any = None) -> int | None:
        """The status. 0: it has not reached the node; None: nobody knows what has become of it. `body`: bytes, or what is sent as JSON."""
        may_refuse = self.node.is_full
        if self._connection is None:
            self._connection = http.client.HTTPConnection("127.0.0.1", self.node.process.port, timeout=SECONDS)
            try:
                self._connection.connect()
            except OSError:
                self._close()
                return 0
        if type(body) is bytes:
            kind, data = "application/octet-stream", body
        else:
            kind, data = "application/json", b"" if body is None else json.dumps(body).encode()
        try:
            self._connection.request(method, path, data or None, {"Authorization": AUTHORIZATION, "Content-Type": kind})
            answer = self._connection.getresponse()
            text = answer.read()
        except (OSError, http.client.HTTPException):
            self._close()
            return None
        if answer.status == NO_SPACE and method != "GET" and (may_refuse or self.node.is_full):
            self.node.refusals += 1
            return NO_SPACE
        if answer.status >= 500 and (answer.status != 503 or b"clock" in text):
            self.recorder.faults.append(f"{self.name}: {method} {path} {str(body)[:100]}: {answer.status} {text[:500]!r}")
            return None
        return answer.status

    def _write(self, kind: str, key: str, n: int, method: str, path: str, body: Any, tables: tuple[str, ...] = ("Item",)) -> None:
        status = self._ask(method, path, body)
        if status is None or 200 <= status < 300:
            self.recorder.note([Write(self.node.name, kind, table, key, n, status is not None) for table in tables])
        elif status == NO_SPACE:
            self.recorder.note([Write(self.node.name, kind, table, key, n, is_certain=False, is_refused=True) for table in tables])
        elif status not in (0, 503, 404):
            self.recorder.faults.append(f"{self.name}: {method} {path}: {status}")

    def _key(self) -> str:
        return f"e{self.recorder.answers // ERA}-{self.source.randrange(KEYS)}"

    # --- what they do ------------------------------------------------------------------------------------------------------------------

    def put(self) -> None:
        key, n = self._key(), self.recorder.number()
        self._write("put", key, n, "PUT", f"/Item/{key}", {"n": n, "count": 0, "group": f"g{n % 3}"})

    def patch(self) -> None:
        key, n = self._key(), self.recorder.number()
        body: dict[str, Any] = {"n": n}
        if n % 2:
            body["group"] = f"g{n % 3}"
        if n % 3:
            body["count"] = {"__op__": "add", "value": n % 5}
        self._write("patch", key, n, "PATCH", f"/Item/{key}", body)

    def add(self) -> None:
        """To a counter that is never put."""
        key = f"counter{self.source.randrange(3)}"
        self._write("add", key, 0, "PATCH", f"/Item/{key}", {"count": {"__op__": "add", "value": 1}})

    def delete(self) -> None:
        key = self._key()
        self._write("delete", key, 0, "DELETE", f"/Item/{key}", None)

    def insert(self) -> None:
        """A record that nobody writes again."""
        n = self.recorder.number()
        self._write("insert", f"once{n}", n, "PUT", f"/Item/once{n}", {"n": n})

    def both(self, length: int = 10) -> None:
        key, n = f"both{self.source.randrange(5)}", self.recorder.number()
        self._write("both", key, n, "POST", "/Both/", {"id": key, "n": n, "length": length}, ("Item", "Pair"))

    def long(self) -> None:
        self.both(LONG)

    def file(self) -> None:
        """A blob, which begins with its number."""
        key, n = f"file{self.source.randrange(6)}", self.recorder.number()
        data = b"%d " % n + self.source.randbytes(self.source.choice(SIZES))
        self._write("file", key, 0, "PUT", f"/File/{key}/content", data, ("File",))

    def tell(self) -> None:
        n = self.recorder.number()
        self._write("tell", f"k{n % 7}", n, "POST", "/Tell/", {"id": f"k{n % 7}", "n": n}, ("Note",))

    def read(self) -> None:
        self._ask("GET", f"/Item/?group=g{self.source.randrange(3)}&limit(20)")
