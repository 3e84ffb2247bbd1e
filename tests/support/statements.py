"""An engine of SQL that knows a few texts by heart, for tests of what is around it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any, cast

from svc.api.statements import Statements
from svc.clock import FakeClock


class FakeRows:
    """Rows in parts; what is an exception in them is raised where it stands."""

    def __init__(self, columns: Sequence[str], *parts: list[dict[str, Any]] | Exception) -> None:
        self.columns = tuple(columns)
        first, self._left = (parts[0], list(parts[1:])) if parts else ([], [])
        assert isinstance(first, list)
        self.found = first
        self.is_closed = False
        self.asked = 0

    @property
    def done(self) -> bool:
        return not self._left

    async def more(self) -> list[dict[str, Any]]:
        assert not self.is_closed
        self.asked += 1
        await asyncio.sleep(0)
        part = self._left.pop(0)
        if isinstance(part, Exception):
            self._left.clear()
            raise part
        return part

    def close(self) -> None:
        self.is_closed = True


class FakeEngine:
    """`answers`: text -> what it is answered with, or a function of the parameters and the caller; a list is of rows, an exception is raised.
    `calls`: (text, parameters, caller) of each statement. `is_slow`: answers are awaited."""

    def __init__(self, answers: dict[str, Any] | None = None) -> None:
        self.answers = {} if answers is None else answers
        self.calls: list[tuple[str, Any, Any]] = []
        self.rows: list[FakeRows] = []
        self.is_slow = False
        self.is_closed = False

    def run(self, text: str, parameters: Any, caller: Any) -> Any:
        self.calls.append((text, parameters, caller))
        return self._later(text, parameters, caller) if self.is_slow else self._answer(text, parameters, caller)

    async def _later(self, text: str, parameters: Any, caller: Any) -> Any:
        await asyncio.sleep(0)
        return self._answer(text, parameters, caller)

    def _answer(self, text: str, parameters: Any, caller: Any) -> Any:
        answer = self.answers[text]
        if isinstance(answer, Callable):  # type: ignore[arg-type]
            answer = answer(parameters, caller)
        if isinstance(answer, Exception):
            raise answer
        if isinstance(answer, list):
            answer = FakeRows(list(answer[0]) if answer else ["a"], answer)
        if isinstance(answer, FakeRows):
            self.rows.append(answer)
        return answer

    def close(self) -> None:
        self.is_closed = True


def statements_of(engine: FakeEngine, most_rows: int = 1000) -> Statements:
    return Statements(lambda: cast(Any, engine), most_rows, FakeClock())
