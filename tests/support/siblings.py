"""Other processes over the same data directory, without processes."""

from __future__ import annotations

from typing import Any

from svc.siblings import Answer

HANGS = "it does not answer"


def answer(number: int, value: Any = None, error: str | None = None, started: int = 1) -> Answer:
    """Of the instance `number`."""
    return Answer(f"{1000 + number}-{started}-{number:08x}", number, value, error)


class FakeSiblings:
    """In place of `Siblings`. `answers`: to what is asked, by topic. `asked`, `told`: (topic, value)."""

    def __init__(self, **answers: list[Answer]) -> None:
        self.answers = {f"operations.{topic}": found for topic, found in answers.items()}
        self.functions: dict[str, Any] = {}
        self.asked: list[tuple[str, Any]] = []
        self.told: list[tuple[str, Any]] = []

    async def open(self) -> None:
        pass

    def answer(self, topic: str, function: Any) -> None:
        self.functions[topic] = function

    async def ask(self, topic: str, value: Any, seconds: float) -> list[Answer]:
        self.asked.append((topic, value))
        return list(self.answers.get(topic, ()))

    def tell(self, topic: str, value: Any) -> None:
        self.told.append((topic, value))
