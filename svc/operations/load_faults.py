"""Which records of a load have failed, as its job's result has them (row, line, key, attribute) and as its `faults` (spec: operations §4, http §5.1)."""

from __future__ import annotations

from array import array
from typing import Any

from svc.content.list_faults import LONGEST_NAME, MAX_FAULTS, could_be_key
from svc.errors import Problem
from svc.store.writing.bulk_batch import BulkResult, Failure


class LoadFaults:
    """The lines of records are kept until their batch is committed."""

    def __init__(self) -> None:
        self.entries: list[dict[str, Any]] = []
        self.faults: list[dict[str, Any]] = []
        self._lines = array("q")
        self._first = 1  # number of the record of the first line that is kept

    def add_lines(self, lines: list[int]) -> None:
        """Those on which the next records begin."""
        self._lines.extend(lines)

    def take(self, result: BulkResult) -> None:
        """What has been committed since the last time. The lines before are forgotten."""
        for failure in result.errors[len(self.entries) :]:
            entry = self._entry(failure)
            self.entries.append(entry)
            if len(self.faults) < MAX_FAULTS:
                known: dict[str, Any] = {name: entry[name] for name in ("line", "key", "attribute") if name in entry}
                self.faults.append({"index": failure.number - 1, **known, "code": failure.code, "message": failure.message})
        done = result.total + 1 - self._first
        del self._lines[:done]
        self._first += done

    def end(self, problem: Problem) -> None:
        """What ended the load, behind the records that had failed before."""
        told = list(problem.faults or ({"message": problem.message},))[:MAX_FAULTS]
        del self.faults[MAX_FAULTS - len(told) :]
        self.faults += [{**fault, "code": problem.code} for fault in told]

    def _entry(self, failure: Failure) -> dict[str, Any]:
        entry: dict[str, Any] = {"row": failure.number, "line": self._lines[failure.number - self._first]}
        if failure.key is not None and could_be_key(failure.key) and _is_storable(failure.key):
            entry["key"] = failure.key
        if failure.attribute is not None and len(failure.attribute) <= LONGEST_NAME and _is_storable(failure.attribute):
            entry["attribute"] = failure.attribute
        entry["message"] = failure.message
        return entry


def _is_storable(value: object) -> bool:
    """Whether all strings of a key have a form in UTF-8."""
    try:
        str(value).encode()
    except UnicodeEncodeError:
        return False
    return True
