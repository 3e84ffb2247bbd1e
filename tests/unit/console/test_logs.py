"""The log of the server in the console (spec: console §9)."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

import pytest

from svc.console.views import logs
from svc.logs import Logs, reading
from tests.support.console import ConsoleAnswer, ConsoleSite

HOSTILE = "\"'><img src=x onerror=alert(1)>"
LINE = "2026-01-05T10:{minute:02}:{second:02}.000Z [http/0] [{level}]{tags}: {message}\n"


def line(number: int, message: str = "", level: str = "info", tags: str = "") -> str:
    return LINE.format(minute=number // 60 % 60, second=number % 60, level=level, tags=tags, message=message or f"message {number}")


@pytest.fixture
def site(tmp_path: Path) -> Iterator[ConsoleSite]:
    made = ConsoleSite(tmp_path, logging={"level": "error"})
    made.node.node.logs = made.node.logs = Logs.from_config(made.node.config, clock=made.node.clock)
    yield made
    made.node.logs.close()
    made.close()


def write(site: ConsoleSite, text: str, name: str = "") -> None:
    path = site.node.root / "log" / name if name else site.node.config.logging.path
    path.parent.mkdir(exist_ok=True)
    with path.open("a", encoding="utf-8", newline="") as file:
        file.write(text)


def get(site: ConsoleSite, user: Any = "admin", **fields: str) -> ConsoleAnswer:
    return site.get(f"/console/logs?{urlencode(fields)}", user)


def messages(answer: ConsoleAnswer) -> list[str]:
    return [row[3] for row in answer.page.rows[1:]]


def test_entries_the_newest_first(site: ConsoleSite) -> None:
    write(site, line(1) + line(2, "two", "error", " [shop] [x y]"))
    answer = get(site)
    assert answer.page.rows == [
        ["Time (UTC)", "Level", "Tags", "Message"],
        ["2026-01-05 10:00:02.000", "error", "shop x y http/0", "two"],
        ["2026-01-05 10:00:01.000", "info", "http/0", "message 1"],
    ]
    assert answer.page.links["shop"] == "./logs?tag=shop"
    assert {"tag": "section", "id": "log"}.items() <= {"tag": "section", **answer.page.find("section", id="log")}.items()


def test_an_empty_log(site: ConsoleSite) -> None:
    assert "No entries." in get(site).page.text
    assert "No entries like this." in get(site, level="fatal").page.text


@pytest.mark.parametrize(
    "fields, expected",
    [
        ({"level": "error"}, ["b"]),
        ({"filter": "a"}, ["a"]),
        ({"filter": "shop"}, ["b"]),
        ({"tag": "shop"}, ["b"]),
        ({"tag": "sho"}, []),
        ({"from": "2026-01-05 10:00:02"}, ["c", "b"]),
        ({"until": "2026-01-05T10:00:02Z"}, ["b", "a"]),
        ({"from": "2026-01-05 10:00:02", "until": "2026-01-05 10:00:02", "tag": "shop", "level": "error"}, ["b"]),
        ({"log_name": "install.log"}, ["installed"]),
        ({"filter": "^(a+)+$"}, []),  # no expression, but a text
    ],
)
def test_filters(site: ConsoleSite, fields: dict[str, str], expected: list[str]) -> None:
    write(site, line(1, "a") + line(2, "b", "error", " [shop]") + line(3, "c"))
    write(site, line(4, "installed"), "install.log")
    answer = get(site, **fields)
    assert answer.status == 200 and messages(answer) == expected
    for name, value in fields.items():
        if name in ("level", "log_name"):
            assert "selected" in answer.page.find("option", value=value)
        else:
            assert answer.page.find("input", name=name)["value"] == value


@pytest.mark.parametrize(
    "fields, text",
    [
        ({"log_name": "../../etc/passwd"}, "'log_name' '../../etc/passwd' is invalid."),
        ({"log_name": HOSTILE}, "is invalid"),
        ({"level": "loud"}, "'level' must be one of"),
        ({"from": "yesterday"}, "'from' date 'yesterday' is invalid."),
        ({"until": HOSTILE}, "is invalid"),
    ],
)
def test_filters_that_are_none(site: ConsoleSite, fields: dict[str, str], text: str) -> None:
    write(site, line(1, "secret"))
    answer = get(site, **fields)
    assert answer.status == 400 and text in answer.page.text and "secret" not in answer.page.text
    assert answer.page.find("div", id="fault", role="alert")
    for name, value in fields.items():
        if name in ("from", "until"):
            assert answer.page.find("input", name=name)["value"] == value


def test_what_is_in_the_log_is_text(site: ConsoleSite) -> None:
    write(site, line(1, f"{HOSTILE} \x1b[31mred\x1b[0m a\u202eb \x00", "info", f" [{HOSTILE}]") + line(2, "", "x'><b"))
    entry = {"timestamp": "2026-01-05T10:00:03.000Z", "level": "<b>", "message": "\ud800", "thread": HOSTILE, "tags": ["\ud800", HOSTILE]}
    write(site, json.dumps(entry, separators=(",", ":")) + "\n")
    answer = get(site)
    assert answer.status == 200
    rows = answer.page.rows
    assert rows[1][1] == "<b>" and rows[1][3] == "\\ud800"
    assert rows[2][3].startswith(f"{HOSTILE} \\u001b[31mred\\u001b[0m a\\u202eb \\u0000") or rows[3][3].startswith(HOSTILE)
    assert f"{HOSTILE} \\u001b[31mred\\u001b[0m a\\u202eb \\u0000" in answer.page.text
    for text in ("\x1b", "\u202e", "\x00"):
        assert text.encode() not in answer.body


def test_messages_of_several_lines_fold(site: ConsoleSite) -> None:
    write(site, line(1, "Traceback\n  File <x>\nValueError: a\n") + line(2, "one") + line(3, "\nbegins empty") + line(4, "x" * 400))
    page = get(site).page
    assert len([1 for tag, _ in page.elements if tag == "details"]) == 4, "one of them is the menu"
    assert page.rows[4][3] == "Traceback  File <x>\nValueError: a"
    assert page.rows[2][3] == "…begins empty"
    assert page.rows[1][3] == "x" * 300 + "…" + "x" * 400


def test_entries_of_one_time_have_addresses_of_their_own(site: ConsoleSite) -> None:
    write(site, line(1, "a") + line(1, "b") + line(2, "c"))
    hrefs = [each["href"] for tag, each in get(site).page.elements if tag == "a" and each.get("title") == "The log up to here"]
    at = "./logs?until=2026-01-05T10%3A00%3A0{}.000Z#{}"
    assert hrefs == [at.format(2, 1), at.format(1, 2), at.format(1, 1)]
    write(site, line(2, "d"))  # which does not change those of the others
    later = [each["href"] for tag, each in get(site).page.elements if tag == "a" and each.get("title") == "The log up to here"]
    assert later == [at.format(2, 2), *hrefs]
    assert messages(site.get("/console/logs?" + hrefs[1].partition("?")[2].partition("#")[0])) == ["b", "a"]


def test_pages_do_not_move_while_entries_come(site: ConsoleSite) -> None:
    write(site, "".join(map(line, range(250))))
    first = get(site)
    assert messages(first) == [f"message {number}" for number in range(249, 149, -1)] and "Newer" not in first.page.links
    write(site, "".join(line(number, "new") for number in range(250, 260)))
    second = site.get("/console/logs?" + first.page.links["Older"].partition("?")[2])
    assert messages(second) == [f"message {number}" for number in range(149, 49, -1)]
    third = site.get("/console/logs?" + second.page.links["Older"].partition("?")[2])
    assert messages(third) == [f"message {number}" for number in range(49, -1, -1)] and "Older" not in third.page.links
    back = site.get("/console/logs?" + third.page.links["Newer"].partition("?")[2])
    assert messages(back) == messages(second)
    assert messages(site.get("/console/logs" + back.page.links["Newest"].removeprefix("./logs")))[0] == "new"


def test_following(site: ConsoleSite) -> None:
    write(site, line(1, "a", "error", " [shop]"))
    plain = get(site, level="error", tag="shop", until="2026-01-05")
    assert "data-poll" not in plain.page.find("section", id="log") and len([1 for tag, _ in plain.page.elements if tag == "script"]) == 1
    answer = site.get("/console/logs?" + plain.page.links["Follow"].partition("?")[2])
    page = answer.page
    assert page.find("section", id="log")["data-poll"] == "2" and "hidden" in page.find("button", **{"data-hold": "log"})
    assert page.reload == "3" and plain.page.reload == ""
    assert messages(answer) == ["a"] and len([1 for tag, _ in page.elements if tag == "script"]) == 2
    assert page.links["Stop following"] == "./logs?level=error&tag=shop"
    write(site, line(2, "b", "error", " [shop]") + line(3, "c"))
    assert messages(get(site, level="error", tag="shop", follow="1")) == ["b", "a"]


def test_a_long_log_is_read_from_its_end(site: ConsoleSite, monkeypatch: pytest.MonkeyPatch) -> None:
    """12 MB: what is shown is a page, and no more lines are read for it."""
    text = "".join(line(number, f"message {number} " + "x" * 200) for number in range(1000))
    for _ in range(50):
        write(site, text)
    path = site.node.config.logging.path
    assert path.stat().st_size > 12_000_000
    blocks: list[int] = []
    parts = reading._lines_backward

    def counted(stream: Any, end: int) -> Any:
        for line, offset in parts(stream, end):
            blocks.append(len(line))
            yield line, offset

    monkeypatch.setattr(reading, "_lines_backward", counted)
    answer = get(site)
    assert answer.status == 200 and len(messages(answer)) == logs.ROWS and len(answer.body) < 200_000
    assert sum(blocks) < 100_000


def test_long_messages_do_not_make_a_long_page(site: ConsoleSite) -> None:
    for number in range(12):
        write(site, line(number, f"{number}\n" + "<" * 1_000_000))
    answer = get(site)
    assert answer.status == 200 and len(answer.page.rows) == 13 and "The message is longer." in answer.page.text
    assert len(answer.body) < 4_000_000


def test_the_room_of_a_page_is_that_of_all_messages(site: ConsoleSite) -> None:
    write(site, "".join(line(number, "first\n" + "y" * 30_000) for number in range(100)))
    answer = get(site)
    assert len(answer.page.rows) == 101 and len(answer.body) < logs.MOST_PAGE + 150_000


def test_lines_that_svc_did_not_write(site: ConsoleSite) -> None:
    write(site, f"{HOSTILE}\nmore\n" + line(1, "a"))
    assert messages(get(site))[0] == "a" and HOSTILE in messages(get(site))[1]


@pytest.mark.parametrize("start", ["x", "-1", "1e3", "9" * 25, "99999999"])
def test_starts_that_are_none(site: ConsoleSite, start: str) -> None:
    write(site, line(1))
    assert get(site, start=start).status == 200


def test_who_may_read_the_log(site: ConsoleSite) -> None:
    write(site, line(1, "a"))
    reader = site.node.user("reader", {"operations": ["read_log"]})
    answer = get(site, reader)
    assert answer.status == 200 and messages(answer) == ["a"]
    places = {text for text, href in answer.page.links.items() if href.startswith("./") and href.count("/") == 1 and "?" not in href}
    assert "Logs" in places and {"Databases", "Jobs", "Audit log", "Backups", "Scheduler"}.isdisjoint(places)
    permissions: list[dict[str, Any]] = [{}, {"structure_user": True}, {"data": {"tables": {}}}]
    for permission in permissions:
        assert get(site, site.node.user("other", permission)).status == 403
    assert get(site, None).status == 401
    nobody = site.node.user("none", {})
    nobody = type(nobody)("none", True, None)
    assert get(site, nobody).status == 403
    assert site.post("/console/logs", {"x": "1"}).status == 405


def test_hostile_filters_come_back_as_text(site: ConsoleSite) -> None:
    write(site, line(1, HOSTILE, "info"))
    answer = get(site, filter=HOSTILE, tag="")
    assert messages(answer) == [HOSTILE] and answer.page.find("input", name="filter")["value"] == HOSTILE
    assert quote("<") in answer.page.links["Follow"]
