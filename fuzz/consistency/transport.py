"""How clients reach the servers: HTTP over a connection that is kept for a while, and what an answer means for the history."""

from __future__ import annotations

import http.client
import json
import random
from collections.abc import Callable, Mapping
from typing import Any

from fuzz.consistency.history import NoOutcome, NotDone, Recorder
from tests.integration.conftest import authorization

SECONDS = 60.0  # for an answer; later it has no outcome
AUTHORIZATION = authorization()
PORTS = "http", "operations", "mqtt"


class Answer:
    """`fields`: names in small letters."""

    def __init__(self, status: int, fields: Mapping[str, str], body: bytes) -> None:
        self.status = status
        self.fields = fields
        self.body = body

    def json(self) -> Any:
        return json.loads(self.body or b"null")

    def __repr__(self) -> str:
        return f"{self.status} {self.body[:500]!r}"


class Http:
    """`port_of(kind)`: a port of one of the servers. `ask` raises NotDone and NoOutcome."""

    def __init__(self, port_of: Callable[[str], int], source: random.Random, recorder: Recorder) -> None:
        self._port_of = port_of
        self._source = source
        self._recorder = recorder
        self._connections: dict[str, http.client.HTTPConnection] = {}

    def ask(self, method: str, path: str, body: Any = None, *, kind: str = "http", **fields: str) -> Answer:
        """`body`: JSON."""
        if self._source.random() < 0.05:  # so that the next call may come to another instance
            self.close(kind)
        connection = self._connections.get(kind)
        if connection is None:
            connection = http.client.HTTPConnection("127.0.0.1", self._port_of(kind), timeout=SECONDS)
            try:
                connection.connect()
            except OSError as error:
                raise NotDone from error
            self._connections[kind] = connection
        data = None if body is None else json.dumps(body).encode()
        sent = {"Authorization": AUTHORIZATION, "Content-Type": "application/json"} if data else {"Authorization": AUTHORIZATION}
        try:
            connection.request(method, path, data, {**sent, **{name.replace("_", "-"): value for name, value in fields.items()}})
            response = connection.getresponse()
            answer = Answer(response.status, {name.lower(): value for name, value in response.getheaders()}, response.read())
        except (OSError, http.client.HTTPException) as error:
            self.close(kind)
            raise NoOutcome from error
        if answer.status == 503:
            raise NotDone
        if answer.status >= 500:
            self._recorder.faults.append(f"{method} {path} {body}: {answer}")
            raise NoOutcome
        return answer

    def operate(self, operation: str, **fields: Any) -> Answer:
        return self.ask("POST", "/", {"operation": operation, **fields}, kind="operations")

    def close(self, kind: str | None = None) -> None:
        for each in PORTS if kind is None else (kind,):
            connection = self._connections.pop(each, None)
            if connection is not None:
                connection.close()
