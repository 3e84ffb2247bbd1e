"""The job of an import as its page shows it, and the refused rows as a file."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from svc.pages.cells import CELL, shortened

JOB = "load_upload"  # the operation, and so the type of its jobs
_ENDED = frozenset(("COMPLETE", "ERROR"))
_MESSAGE = 500  # characters
_MOST = 100  # refused rows that are shown: a job keeps no more
_COLUMNS = ("row", "line", "key", "attribute", "message")


@dataclass(slots=True)
class RefusedRow:
    row: str
    line: str
    key: str
    attribute: str
    message: str


@dataclass(slots=True)
class JobPage:
    """`state`: a sentence. `read`, `written`, `skipped`, `failed`: rows so far. `refused`: the first of them; `is_cut`: there are more. `message`: why it has
    failed, or how far it is."""

    state: str
    is_ended: bool
    has_failed: bool
    message: str
    read: int
    written: int
    skipped: int
    failed: int
    refused: list[RefusedRow]
    is_cut: bool


def job_page(job: Mapping[str, Any]) -> JobPage:
    status = job["status"]
    progress = job.get("progress") or {}
    counts = {name: int(progress.get(name, 0)) for name in ("written", "skipped", "failed")}
    result = job.get("result")
    if isinstance(result, dict):
        counts |= {name: int(result[name]) for name in counts}
    read = sum(counts.values())
    refused = _refused(job)
    states = {
        "CREATED": "The import waits for its turn.",
        "IN_PROGRESS": "The import is running.",
        "COMPLETE": "The import is done.",
        "ERROR": "The import has ended before it was done. What was written before stays; the figures are the last that were noted.",
    }
    message = job.get("message")
    return JobPage(
        states.get(status, status),
        status in _ENDED,
        status == "ERROR",
        "" if status == "COMPLETE" else shortened(message if isinstance(message, str) else str(message or ""), _MESSAGE),
        read,
        counts["written"],
        counts["skipped"],
        counts["failed"],
        [RefusedRow(*[shortened(str(row.get(name, "")), _MESSAGE if name == "message" else CELL) for name in _COLUMNS]) for row in refused],
        counts["failed"] > len(refused),
    )


def refused_csv(job: Mapping[str, Any]) -> bytes:
    """RFC 4180, with a byte order mark, as spreadsheets want it. What begins like a formula is text for them by an apostrophe."""
    lines = [",".join(_COLUMNS), *[",".join([_cell(row.get(name, "")) for name in _COLUMNS]) for row in _refused(job)]]
    return ("\ufeff" + "".join(f"{line}\r\n" for line in lines)).encode("utf-8", "replace")


def _refused(job: Mapping[str, Any]) -> list[dict[str, Any]]:
    result = job.get("result")
    if isinstance(result, dict):
        return list(result["errors"][:_MOST])
    return [{**fault, "row": fault["index"] + 1 if "index" in fault else ""} for fault in job.get("faults") or ()]


def _cell(value: Any) -> str:
    text = str(value)
    if isinstance(value, str) and text[:1] in ("=", "+", "-", "@", "\t", "\r"):
        text = f"'{text}"
    return '"' + text.replace('"', '""') + '"' if any(sign in text for sign in ',"\r\n') else text
