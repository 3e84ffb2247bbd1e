"""Loggers, thresholds, sections with files of their own, streams, reconfiguration."""

import io
from pathlib import Path
from typing import Any

import pytest

from svc.clock import FakeClock
from svc.config import Config
from svc.logs import Logs
from svc.logs.core import NUMBERS

T = "2026-01-01T00:00:00.000Z"


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def logs_of(
    root: Path, *, stdout: io.StringIO | None = None, stderr: io.StringIO | None = None, instance: int = 0, **document: Any
) -> Logs:
    logs = Logs(FakeClock())
    logs.configure(Config.from_document(document, root), instance=instance, stdout=stdout, stderr=stderr)
    return logs


def lines(root: Path, name: str = "svc.log") -> list[str]:
    file = root / "log" / name
    return file.read_text(encoding="utf-8").splitlines() if file.exists() else []


def test_lines_have_the_contracts_form(tmp_path: Path) -> None:
    logs = logs_of(tmp_path, instance=2, logging={"level": "info"})
    logs.logger.notify("svc 1.0.0 successfully started.")
    logs.get_logger("operation", thread="http").info({"operation": "describe_all", "user": "ann"})
    logs.get_logger("shop").with_tag("a b").with_thread("job").error("two\nlines")
    assert lines(tmp_path) == [
        f"{T} [main/2] [notify]: svc 1.0.0 successfully started.",
        f'{T} [http/2] [info] [operation]: {{"operation":"describe_all","user":"ann"}}',
        f"{T} [job/2] [error] [shop] [a_b]: two",
        "lines",
    ]
    logs.close()


def test_the_thread_name_is_the_processes_unless_given(tmp_path: Path) -> None:
    logs = logs_of(tmp_path)
    logs.thread = "http"
    logs.logger.warning("x")
    assert lines(tmp_path) == [f"{T} [http/0] [warn]: x"]
    logs.close()


@pytest.mark.parametrize("level", list(NUMBERS))
def test_a_level_includes_all_higher_ones(tmp_path: Path, level: str) -> None:
    logs = logs_of(tmp_path, logging={"level": level})
    for name, number in NUMBERS.items():
        getattr(logs.logger, name)("x")
        assert logs.logger.is_enabled(name) == (number >= NUMBERS[level])
    written = [line.split("] [")[1].split("]")[0] for line in lines(tmp_path)]
    assert written == [name for name, number in NUMBERS.items() if number >= NUMBERS[level]]
    logs.close()


def test_log_by_name(tmp_path: Path) -> None:
    logs = logs_of(tmp_path)
    logs.logger.log("info", "no")
    logs.logger.log("error", "yes")
    assert lines(tmp_path) == [f"{T} [main/0] [error]: yes"]
    logs.close()


def test_pending_lines_are_announced_once_and_urgent_ones_do_not_wait(tmp_path: Path) -> None:
    logs = logs_of(tmp_path)
    announced: list[int] = []
    logs.on_pending = lambda: announced.append(1)
    logs.logger.warning("one")
    logs.logger.warning("two")
    assert announced == [1]
    assert lines(tmp_path) == []
    logs.flush()
    assert len(lines(tmp_path)) == 2
    logs.logger.warning("three")
    assert announced == [1, 1]
    logs.logger.fatal("now")
    assert len(lines(tmp_path)) == 4
    logs.logger.warning("last")
    logs.close()
    assert len(lines(tmp_path)) == 5


def test_streams_without_time_on_a_terminal_and_with_it_elsewhere(tmp_path: Path) -> None:
    out, err = io.StringIO(), Terminal()
    logs = logs_of(tmp_path, stdout=out, stderr=err, logging={"stdStreams": True, "colors": False})
    logs.logger.warning("to out")
    logs.logger.error("to err")
    logs.logger.notify("to out too")
    assert out.getvalue() == f"{T} [main/0] [warn]: to out\n{T} [main/0] [notify]: to out too\n"
    assert err.getvalue() == "[main/0] [error]: to err\n"
    assert len(lines(tmp_path)) == 3
    logs.close()


def test_colours_only_on_a_terminal(tmp_path: Path) -> None:
    out, err = io.StringIO(), Terminal()
    logs = logs_of(tmp_path, stdout=out, stderr=err, logging={"stdStreams": True})
    logs.logger.warning("x")
    logs.logger.error("x")
    assert "\x1b[" not in out.getvalue()
    assert "\x1b[31merror\x1b[0m" in err.getvalue()
    assert "\x1b[" not in "".join(lines(tmp_path))
    logs.close()


def test_without_a_file_the_streams_get_everything(tmp_path: Path) -> None:
    out = io.StringIO()
    logs = logs_of(tmp_path, stdout=out, logging={"file": False, "stdStreams": False})
    logs.logger.warning("x")
    assert out.getvalue().endswith("x\n")
    assert not (tmp_path / "log").exists()


def test_a_closed_stream_is_no_trouble(tmp_path: Path) -> None:
    out = io.StringIO()
    logs = logs_of(tmp_path, stdout=out, logging={"stdStreams": True})
    out.close()
    logs.logger.warning("x")
    assert len(lines(tmp_path)) == 1
    logs.close()


def test_before_it_is_configured_warnings_go_to_the_streams(capfd: pytest.CaptureFixture[str]) -> None:
    logs = Logs(FakeClock())
    logs.logger.info("no")
    logs.logger.error("yes")
    captured = capfd.readouterr()
    assert (captured.out, captured.err) == ("", f"{T} [main/0] [error]: yes\n")


def test_a_section_may_have_its_own_level_file_and_tag(tmp_path: Path) -> None:
    logs = logs_of(
        tmp_path,
        storage={"logging": {"level": "debug", "path": "log/storage.log", "tag": "disk"}},
        mqtt={"logging": {"root": "log"}},
        tls={"logging": {"path": "log/svc.log"}},
    )
    logs.get_logger("storage", section="storage").debug("own")
    logs.get_logger("mqtt", section="mqtt").warn("by section name")
    logs.get_logger("tls", section="tls").warn("shared")
    logs.get_logger("analytics", section="analytics").warn("inherited")
    assert lines(tmp_path, "storage.log") == [f"{T} [main/0] [debug] [disk] [storage]: own"]
    assert lines(tmp_path, "mqtt.log") == [f"{T} [main/0] [warn] [mqtt]: by section name"]
    assert [line[-6:] for line in lines(tmp_path)] == ["shared", "erited"]
    assert logs.log("tls").file is logs.log("").file
    logs.close()


def test_components_inherit_from_external(tmp_path: Path) -> None:
    logs = logs_of(tmp_path, logging={"external": {"level": "info", "path": "log/apps.log"}}, shop={"logging": {"level": "error"}})
    logs.get_logger("blog", section="blog").info("blog")
    logs.get_logger("shop", section="shop").warn("not this")
    logs.get_logger("shop", section="shop").error("shop")
    assert [line[-4:] for line in lines(tmp_path, "apps.log")] == ["blog", "shop"]
    assert lines(tmp_path) == []
    logs.close()


def test_loggers_follow_a_new_configuration(tmp_path: Path) -> None:
    logs = logs_of(tmp_path)
    logger = logs.get_logger("x")
    logger.debug("no")
    logs.configure(Config.from_document({"logging": {"level": "debug", "path": "log/new.log"}}, tmp_path))
    logger.debug("yes")
    assert lines(tmp_path) == []
    assert len(lines(tmp_path, "new.log")) == 1
    logs.close()


def test_lines_that_wait_survive_a_new_configuration(tmp_path: Path) -> None:
    logs = logs_of(tmp_path)
    logs.on_pending = lambda: None
    logs.logger.warning("waits")
    logs.configure(Config.from_document({"logging": {"path": "log/new.log"}}, tmp_path))
    assert len(lines(tmp_path)) == 1
    logs.close()


def test_rotation_writes_its_line_and_keeps_stems(tmp_path: Path) -> None:
    logs = logs_of(
        tmp_path, logging={"rotation": {"maxSize": "1K"}}, http={"logging": {"path": "log/http.log", "rotation": {"maxSize": "2K"}}}
    )
    logs.logger.warning("x" * 1100)
    logs.get_logger(section="http").warn("x" * 1100)
    logs.maintain()
    rotated = tmp_path / "log" / "SVC-2026-01-01T00-00-00.000Z.log"
    assert rotated.exists()
    assert lines(tmp_path) == [f"{T} [main/0] [notify]: svc.log rotated, old log moved to {rotated}"]
    logs.get_logger(section="http").warn("x" * 1100)
    logs.maintain()
    assert (tmp_path / "log" / "http-2026-01-01T00-00-00.000Z.log").exists()
    logs.close()


def test_reopen(tmp_path: Path) -> None:
    logs = logs_of(tmp_path)
    logs.logger.warning("one")
    (tmp_path / "log" / "svc.log").rename(tmp_path / "log" / "old")
    logs.reopen()
    logs.logger.warning("two")
    assert [line[-3:] for line in lines(tmp_path)] == ["two"]
    logs.close()
