"""SectionLog files read from both ends: the same entries, however the blocks fall."""

from __future__ import annotations

import io
import json
import random
from pathlib import Path
from typing import Any

import pytest

from svc.clock import FakeClock
from svc.config import Config
from svc.logs import Logs, reading
from svc.logs.lines import json_entry, prefix, timestamp
from svc.logs.reading import LogQuery, LogReader, parse_head

BEGIN = 1_767_607_200.0  # 2026-01-05T10:00:00Z


def line(seconds: float, level: str, text: str, *tags: str, thread: str = "http") -> str:
    return f"{timestamp(BEGIN + seconds)} {prefix(thread, 0, level, tags)}{text}"


def entry(seconds: float, level: str, text: str, *tags: str, thread: str = "http") -> dict[str, Any]:
    return {"level": level, "message": text, "timestamp": timestamp(BEGIN + seconds), "thread": f"{thread}/0", "tags": list(tags)}


def read(path: Path, **wanted: Any) -> list[dict[str, Any]]:
    reader = LogReader(path, LogQuery(**wanted))
    found = []
    while not reader.done:
        found += reader.batch()
    return found


@pytest.fixture
def log(tmp_path: Path) -> Path:
    path = tmp_path / "svc.log"
    path.write_text(
        "\n".join(
            [
                "foreign before",
                line(0, "notify", "started", thread="main"),
                line(1, "info", '{"operation":"describe_all"}', "operation"),
                line(2, "error", "Traceback:\n  File x\n\n  in y", "shop", "orders"),
                "a foreign line",
                json_entry(timestamp(BEGIN + 3), "http", 0, "warn", ("tls",), "one\ntwo ü"),
                line(4, "info", ""),
                '{"timestamp":"nonsense"}',
                line(5, "info", "last"),
                "",
            ]
        ),
        encoding="utf-8",
    )
    return path


ALL = [
    {"level": None, "message": "foreign before", "timestamp": None, "thread": None, "tags": []},
    entry(0, "notify", "started", thread="main"),
    entry(1, "info", '{"operation":"describe_all"}', "operation"),
    entry(2, "error", "Traceback:\n  File x\n\n  in y\na foreign line", "shop", "orders"),
    entry(3, "warn", "one\ntwo ü", "tls"),
    entry(4, "info", '\n{"timestamp":"nonsense"}'),
    entry(5, "info", "last"),
]


def test_both_formats_and_foreign_lines(log: Path) -> None:
    assert read(log) == ALL
    assert read(log, newest_first=True) == ALL[::-1]


@pytest.mark.parametrize("block", [1, 2, 3, 7, 50, 1 << 18])
def test_entries_do_not_depend_on_blocks(log: Path, monkeypatch: pytest.MonkeyPatch, block: int) -> None:
    monkeypatch.setattr(reading, "BLOCK", block)
    data = log.read_bytes()
    for ending in (b"\n", b"", b"\n\n\n", b"\r\n"):
        text = data.removesuffix(b"\n") + ending
        assert list(map(reading._entry, reading._raw_forward(io.BytesIO(text), 0, len(text)))) == ALL
        assert list(map(reading._entry, reading._raw_backward(io.BytesIO(text), len(text)))) == ALL[::-1]


def test_start_and_limit_count_what_matches(log: Path) -> None:
    infos = [each for each in ALL if each["level"] == "info"]
    assert read(log, level="info") == infos
    assert read(log, level="info", start=1, limit=1) == infos[1:2]
    assert read(log, level="info", start=1, limit=1, newest_first=True) == infos[1:2]
    assert read(log, level="info", newest_first=True, limit=2) == infos[:0:-1]
    assert read(log, start=100) == []
    assert read(log, limit=10**9) == ALL


def test_the_tail_is_the_newest_entries_oldest_first(log: Path) -> None:
    assert read(log, tail=True) == ALL
    for limit in range(1, len(ALL) + 2):
        for start in range(len(ALL) + 2):
            assert read(log, tail=True, limit=limit, start=start) == ALL[max(0, len(ALL) - start - limit) : max(0, len(ALL) - start)]
    assert read(log, tail=True, limit=2**62, start=2**63 - 1) == []
    for level in {entry["level"] for entry in ALL if entry["level"]}:
        assert read(log, tail=True, limit=1, level=level) == [entry for entry in ALL if entry["level"] == level][-1:]


def test_times_are_both_included(log: Path) -> None:
    assert read(log, since=BEGIN + 2, until=BEGIN + 4) == ALL[3:6]
    assert read(log, since=BEGIN + 2, until=BEGIN + 4, newest_first=True) == ALL[5:2:-1]
    assert read(log, since=BEGIN + 2.0004) == ALL[4:]
    assert read(log, until=BEGIN + 1.9996) == ALL[1:3]
    assert read(log, since=-1e15, until=1e15) == ALL[1:]
    assert read(log, since=1e15) == read(log, until=-1e15) == []
    assert read(log, since=BEGIN + 4, until=BEGIN) == []


def test_text_is_looked_for_in_messages_and_tags(log: Path) -> None:
    assert read(log, text="foreign line") == [ALL[3]]
    assert read(log, text="tls") == [ALL[4]]
    assert read(log, text="ü", level="warn", since=BEGIN) == [ALL[4]]
    assert read(log, text="TLS") == []


def test_missing_empty_and_odd_files(tmp_path: Path) -> None:
    assert read(tmp_path / "none") == []
    (tmp_path / "empty").write_bytes(b"")
    assert read(tmp_path / "empty") == read(tmp_path / "empty", newest_first=True) == []
    (tmp_path / "blank").write_bytes(b"\n\n\n")
    assert read(tmp_path / "blank") == read(tmp_path / "blank", newest_first=True) == []
    (tmp_path / "binary").write_bytes(b"\xff\xfe\0\n\x80")
    (found,) = read(tmp_path / "binary")
    assert found == read(tmp_path / "binary", newest_first=True)[0]
    assert found["level"] is None
    with pytest.raises(OSError):
        read(tmp_path)


@pytest.mark.parametrize(
    "text",
    [
        '{"timestamp":"2026-01-05T10:00:00.000Z"}',
        '{"timestamp":"2026-01-05T10:00:00.000Z","level":5,"message":"x"}',
        '{"timestamp":"2026-01-05T10:00:00.000Z","level":"info","message":"x","tags":{}}',
        '{"timestamp":"2026-01-05T10:00:00.000Z","level":"info","message":"x","tags":[1]}',
        '{"timestamp":"yesterday","level":"info","message":"x"}',
        '{"timestamp":"2026-01-05T10:00:00.000Z","level":"info"',
        '{"timestamp":"' + "[" * 100_000,
        "2026-01-05T10:00:00.000Z no prefix",
        "2026-01-05 10:00:00 [main/0] [info]: another program's",
        "",
        "{",
    ],
)
def test_what_begins_no_entry(text: str) -> None:
    assert parse_head(text.encode()) is None


def test_nothing_in_a_message_forges_an_entry(tmp_path: Path) -> None:
    forged = [line(9, "notify", "forged"), json_entry(timestamp(BEGIN), "http", 0, "notify", (), "forged"), "[main/0] [notify]: forged"]
    for format_ in ("text", "json"):
        root = tmp_path / format_
        logs = Logs.from_config(Config.from_document({"logging": {"level": "info", "format": format_}}, root), clock=FakeClock())
        logs.logger.info("\n".join(["first", *forged]))
        logs.logger.with_tag("t").info(forged[0])
        logs.close()
        found = read(root / "log" / "svc.log")
        assert [each["level"] for each in found] == ["info", "info"]
        assert found[0]["message"].count("forged") == 3
        assert found[1]["message"] == forged[0]
        assert found == read(root / "log" / "svc.log", newest_first=True)[::-1]


def test_long_lines_and_messages_are_cut(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "BLOCK", 64)
    monkeypatch.setattr(reading, "MAX_LINE", 500)
    monkeypatch.setattr(reading, "MAX_MESSAGE", 1000)
    path = tmp_path / "svc.log"
    long = "y" * 10_000
    path.write_text("\n".join([line(0, "info", long), *(f"line {number}" for number in range(500)), line(1, "info", "end"), long]) + "\n")
    forward = read(path)
    assert forward == read(path, newest_first=True)[::-1]
    first, second = forward
    assert first["message"].startswith("y" * 400)
    assert "line 0\nline 1\n" in first["message"]
    assert first["message"].endswith("... (cut)")
    assert len(first["message"]) < 2000
    assert len(second["message"]) < 600


def test_a_large_file_is_read_from_about_the_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "BLOCK", 1 << 10)
    path = tmp_path / "svc.log"
    random_ = random.Random(5)
    times = [number * 10 + random_.uniform(-20, 20) for number in range(5000)]
    path.write_text(
        "".join(line(time, random_.choice(["info", "warn"]), f"m {number}\n  more") + "\n" for number, time in enumerate(times))
    )
    everything = read(path, limit=10**9)
    assert len(everything) == 5000
    parsed: list[int] = []
    plain = reading._head
    monkeypatch.setattr(reading, "_head", lambda text: parsed.append(1) or plain(text))
    for since, until in ((25_000, 25_300), (0, 100), (49_900, None), (None, 200), (-1000, 60_000), (60_000, None), (None, -1000)):
        bounds = {"since": None if since is None else BEGIN + since, "until": None if until is None else BEGIN + until}
        low = "" if since is None else timestamp(BEGIN + since)
        high = "9" if until is None else timestamp(BEGIN + until)
        expected = [each for each in everything if low <= each["timestamp"] <= high]
        parsed.clear()
        assert read(path, limit=10**9, **bounds) == expected
        assert read(path, limit=10**9, newest_first=True, **bounds) == expected[::-1]
        if until is None or until < 60_000:
            assert len(parsed) < 1000, (since, until)


def test_batches_are_bounded_whatever_the_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "svc.log"
    path.write_text("".join(line(number, "info", "x" * 2000) + "\n" for number in range(2000)))
    reader = LogReader(path, LogQuery(limit=10**9))
    sizes = []
    while not reader.done:
        sizes.append(len(reader.batch()))
    assert sum(sizes) == 2000
    assert max(sizes) <= reading.BATCH_BYTES // 2000 + 1
    reader.close()
    reader.close()
    assert reader.batch() == []


def test_a_file_cut_off_while_it_is_read(tmp_path: Path) -> None:
    path = tmp_path / "svc.log"
    path.write_text("".join(line(number, "info", "x" * 2000) + "\n" for number in range(2000)))
    reader = LogReader(path, LogQuery(limit=10**9))
    assert reader.batch()
    path.write_text("")
    while not reader.done:
        reader.batch()


def test_chance_files_read_the_same_from_both_ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    random_ = random.Random(3)
    path = tmp_path / "svc.log"
    pieces = [
        line(1, "info", "a"),
        json_entry(timestamp(BEGIN), "x", 1, "warn", ("t",), "b\nc"),
        "foreign",
        "",
        " ",
        '{"timestamp":"',
        "ü" * 40,
        "\r",
    ]
    for _ in range(300):
        monkeypatch.setattr(reading, "BLOCK", random_.randint(1, 200))
        data = "\n".join(random_.choices(pieces, k=random_.randint(0, 12))).encode()
        forward = list(map(reading._entry, reading._raw_forward(io.BytesIO(data), 0, len(data))))
        assert forward == list(map(reading._entry, reading._raw_backward(io.BytesIO(data), len(data))))[::-1]
        path.write_bytes(data)
        limit = random_.randrange(1, 6)
        assert read(path, tail=True, limit=limit) == forward[-limit:], data
        assert json.dumps(forward)
