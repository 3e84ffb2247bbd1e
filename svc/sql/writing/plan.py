"""What all statements that write have in common (spec: sql §5)."""

from __future__ import annotations

from typing import Protocol

from svc.sql.writing.collector import Collector
from svc.sql.writing.reading import Steps
from svc.sql.writing.returning import Answering, Returning
from svc.sql.writing.targets import WriteTarget
from svc.store import Transaction
from svc.store.values.keys import Key


class WritePlan(Protocol):
    """A statement whose names are resolved and whose rights are tested. `operation`: of the log. `adds`: whether it may store something new.
    `decides`: what it writes depends on what there is; else it is enough to check the records.
    `size`: about how many writes it takes. `returning`: what is read when it is written, of the records of `keys`.
    """

    target: WriteTarget
    operation: int
    adds: bool
    decides: bool
    size: int
    returning: Returning | None
    keys: list[Key]

    def collect(self, collector: Collector) -> Steps[None]:
        """Decide what is written, and collect it. From the beginning at each call. Raises the Problem that prevents it."""

    def answer(self, transaction: Transaction) -> Answering:
        """The answer, once it is applied: the body; with RETURNING a list of objects."""
