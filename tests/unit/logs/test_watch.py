"""Example 7 of the specification: the level changes while the server runs."""

from pathlib import Path

from svc.clock import FakeClock
from svc.config import Config, load_config
from svc.logs import LoggingWatch, Logs


def test_a_changed_level_is_taken_over(tmp_path: Path) -> None:
    file = tmp_path / "svc-config.yaml"
    file.write_text("logging: {level: warn}\n")
    config = load_config(tmp_path)
    logs = Logs.from_config(config, instance=2, clock=FakeClock())
    watch = LoggingWatch(config, logs)
    assert not watch.check()
    file.write_text("logging: {level: debug}\n")
    assert watch.check()
    assert not watch.check()
    assert logs.logger.is_enabled("debug")
    assert logs.instance == 2
    logs.close()


def test_an_invalid_or_missing_file_changes_nothing(tmp_path: Path) -> None:
    file = tmp_path / "svc-config.yaml"
    file.write_text("logging: {level: info}\n")
    config = load_config(tmp_path)
    logs = Logs.from_config(config, clock=FakeClock())
    watch = LoggingWatch(config, logs)
    for text in ("logging: {level: loud}\n", "a: [\n"):
        file.write_text(text)
        assert not watch.check()
        assert not watch.check()
    lines = (tmp_path / "log" / "svc.log").read_text()
    assert lines.count("[error]: svc config file validation error: ") == 2
    file.unlink()
    assert not watch.check()
    assert logs.logger.is_enabled("info")
    logs.close()


def test_a_configuration_without_a_file_is_not_watched(tmp_path: Path) -> None:
    config = Config.from_document({}, tmp_path)
    assert not LoggingWatch(config, Logs(FakeClock())).check()
