"""The log of the server: filtered, page by page from its end, or followed (spec: console §9)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from svc.console.page import ConsolePage
from svc.console.texts import whole
from svc.errors import Problem
from svc.messages import Response
from svc.operations.log_reading import LEVELS, LOG_NAMES
from svc.pages.cells import shortened, shown

ROWS = 100  # entries of a page
MOST_START = 1_000_000  # entries that are passed for a page
MOST_TEXT = 20_000  # characters of one message
MOST_PAGE = 400_000  # ... of all messages of a page; what is behind is cut to its first line
_FIRST_LINE = 300  # characters that are seen of a message before it is unfolded
_MOST_TAGS = 20  # of an entry, and the characters of one
_LONGEST_TAG = 200
_FILTERS = ("level", "tag", "filter", "log_name", "from", "until")


@dataclass(slots=True)
class Row:
    """An entry. `href`: what the log says up to this entry, and `number` tells those of one time apart. `line`: what is seen of the message; `rest`: what
    is behind that line, or of a long line the whole message, "" if there is no more. `is_cut`: it is longer still."""

    time: str
    href: str
    level: str
    tags: list[tuple[str, str]]
    thread: str
    line: str
    rest: str
    is_cut: bool


async def show(page: ConsolePage) -> Response:
    fields = {name: page.fields[name] for name in _FILTERS if page.fields.get(name)}
    follows = page.fields.get("follow") == "1"
    start = 0 if follows else whole(page.fields, "start", 0, MOST_START)
    asked: dict[str, Any] = {name: value for name, value in fields.items() if not (follows and name in ("from", "until"))}
    fault: Problem | None = None
    found: list[dict[str, Any]] = []
    try:
        found = await page.run("read_log", **asked, order="desc", start=start, limit=ROWS + 1)
    except Problem as problem:
        fault = problem
    rows = _rows(page, found[:ROWS], fields)
    links = dict.fromkeys(("newest", "newer", "older"), "")
    if not follows and fault is None:
        links |= _links(page, fields, found, start)
    return await page.show(
        "logs.html",
        fault=fault,
        rows=rows,
        links=links,
        follows=follows,
        start=start,
        fields=fields,
        levels=LEVELS,
        names=LOG_NAMES,
        tags=sorted({name for row in rows for name, _ in row.tags}),
        follow=page.at("logs", **_text({**fields, "from": "", "until": "", "follow": "1"})),
        stop=page.at("logs", **_text(fields)),
        has_filter=bool(asked.keys() - {"log_name"}),
    )


def _links(page: ConsolePage, fields: dict[str, str], found: list[dict[str, Any]], start: int) -> dict[str, str]:
    """To the pages beside this one. New entries do not move them: they count from the newest entry of the first page."""
    links = {}
    until = fields.get("until") or max((entry["timestamp"] for entry in found if entry["timestamp"]), default="")
    if len(found) > ROWS and start + ROWS <= MOST_START:
        links["older"] = page.at("logs", **_text({**fields, "until": until, "start": str(start + ROWS)}))
    if start:
        links["newer"] = page.at("logs", **_text({**fields, "start": str(max(0, start - ROWS) or "")}))
        links["newest"] = page.at("logs", **_text({**fields, "until": ""}))
    return links


def _rows(page: ConsolePage, found: list[dict[str, Any]], fields: dict[str, str]) -> list[Row]:
    """Entries with one time are numbered from the oldest, so that an entry keeps its address while others come."""
    room = MOST_PAGE
    numbers: dict[str, int] = {}
    rows = []
    for entry in reversed(found):
        time = entry["timestamp"] or ""
        numbers[time] = numbers.get(time, 0) + 1
        message: str = entry["message"]
        most = max(_FIRST_LINE, min(MOST_TEXT, room))
        first = message[: _FIRST_LINE + 1].partition("\n")[0]
        line = shortened(first, _FIRST_LINE)
        rest = shown(message[0 if len(first) > _FIRST_LINE else len(first) + 1 : most])
        room -= len(line) + len(rest)
        rows.append(
            Row(
                time,
                page.at("logs", **_text({"until": time, "log_name": fields.get("log_name", "")})) + f"#{numbers[time]}" if time else "",
                shortened(entry["level"] or "", _LONGEST_TAG),
                [
                    (shortened(tag, _LONGEST_TAG), page.at("logs", **_text({**fields, "tag": tag[:_LONGEST_TAG]})))
                    for tag in entry["tags"][:_MOST_TAGS]
                ],
                shortened(entry["thread"] or "", _LONGEST_TAG),
                line or "…",
                rest,
                len(message) > most,
            )
        )
    rows.reverse()
    return rows


def _text(fields: dict[str, str]) -> dict[str, str]:
    """As an address can hold it."""
    return {name: value.encode(errors="replace").decode() for name, value in fields.items()}
