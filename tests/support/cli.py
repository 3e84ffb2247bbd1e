"""A client without a server: answers that were written down, and what was asked for."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from svc.cli.client import Client, ServerAddress, Unreachable
from svc.operations.fields import Field
from svc.operations.operation import SUPER_USER, Operation


class FakeAnswer:
    """An answer of `status` with a JSON value, or with bytes of another type. `breaks`: the connection ends before the body does."""

    def __init__(
        self, value: Any = None, status: int = 200, *, content: bytes | None = None, content_type: str = "", breaks: bool = False
    ) -> None:
        self.status = status
        self.content_type = content_type or "application/json"
        self.is_json = self.content_type == "application/json"
        self._content = json.dumps(value).encode() if content is None else content
        self._value = value
        self._breaks = breaks
        self.length = len(self._content)

    def chunks(self) -> Iterator[bytes]:
        yield self._content[:5]
        if self._breaks:
            raise Unreachable("The connection broke before the answer was complete: it ended early")
        yield self._content[5:]

    def read(self) -> bytes:
        return b"".join(self.chunks())

    def value(self) -> Any:
        return self._value

    def error_text(self) -> str:
        return self.error()[0]

    def error(self) -> tuple[str, int | None]:
        return str(self._value["error"]), self._value.get("position")

    def close(self) -> None:
        pass


class FakeClient(Client):
    """Gives the answers in turn. `sent`: the bodies it was given."""

    def __init__(self, *answers: Any) -> None:
        super().__init__(ServerAddress(url="http://fake"))
        self.answers = list(answers)
        self.sent: list[Mapping[str, Any]] = []

    def send(self, body: Mapping[str, Any], authorization: str | None = None) -> Any:
        self.sent.append(dict(body))
        answer = self.answers.pop(0)
        if isinstance(answer, BaseException):
            raise answer
        return answer


ROW = Operation(
    name="paint",
    category="records",
    summary="Paint a `wall`.",
    permission=SUPER_USER,
    handler=lambda call: None,
    fields=(
        Field("wall", "name", "The wall.", required=True),
        Field("colour", "choice", "Its colour.", choices=("red", "blue"), default="red", aliases=("color",)),
        Field("coats", "integer", "How often.", default=1),
        Field("dry", "bool", "Whether to wait."),
        Field("key", "text", "What opens the door.", secret=True),
        Field("windows", "list", "What to leave out."),
    ),
    aliases=("coat",),
    returns="`message`",
    notes="Paint dries.\n\n- slowly\n- in `winter`",
    example={"wall": "north", "windows": ["a b", 1]},
    example_answer={"message": "painted"},
)
"""An operation that nobody has."""

JOB_ROW = Operation(name="build", category="jobs", summary="Build.", permission=SUPER_USER, handler=lambda call: None, starts_job=True)
