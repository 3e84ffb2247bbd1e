"""Changes of the file while the server runs."""

import fcntl
import os
import threading
from pathlib import Path
from typing import Any

import pytest

from svc.clock import FakeClock
from svc.config import Config, Document, load_config
from svc.config.document import changed, read_document
from svc.config.editing import Edit, edit_file, waiting_for_restart
from svc.errors import ConfigError

FILE = "http:\n  port: 9926 # plain\nlogging: {level: warn}\nshop: {package: x}\n"


@pytest.fixture
def config(tmp_path: Path) -> Config:
    (tmp_path / "svc-config.yaml").write_text(FILE)
    return load_config(tmp_path)


def edit(config: Config, **changes: Any) -> Edit:
    return edit_file(
        config, lambda document: changed(document, {name.replace("__", "."): value for name, value in changes.items()}), FakeClock()
    )


def test_an_edit_keeps_a_copy_and_the_comments(config: Config) -> None:
    result = edit(config, http__port=80)
    assert config.file is not None
    assert config.file.read_text() == FILE.replace("9926", "80")
    (copy,) = (config.root / "backup").iterdir()
    assert copy.read_text() == FILE
    assert copy.stat().st_mode & 0o777 == config.file.stat().st_mode & 0o777 == 0o600
    assert result.changed
    assert result.config.http.port == 80
    assert result.notes == ()


def test_an_edit_that_changes_nothing_writes_nothing(config: Config) -> None:
    assert not edit(config, http__port=9926).changed
    assert not (config.root / "backup").exists()


def test_an_edit_is_checked_with_and_without_the_overrides_of_this_run(config: Config) -> None:
    run = load_config(config.root, options={"HTTP_PORT": "7", "LOGGING_LEVEL": "debug"})
    assert edit(run, http__port=80).config.http.port == 7
    assert waiting_for_restart(run, edit(run, http__timeout=5).config) == ["http.timeout", "operationsApi.network.timeout"]
    with pytest.raises(ConfigError):
        edit(run, http__port=9927)  # right with the option, wrong without


def test_edits_of_two_processes_come_one_after_the_other(config: Config) -> None:
    """What flock admits, in this process by two descriptors, is one edit at a time."""
    descriptor = os.open(config.root, os.O_RDONLY)
    fcntl.flock(descriptor, fcntl.LOCK_EX)
    thread = threading.Thread(target=edit, args=(config,), kwargs={"http__port": 80}, daemon=True)
    thread.start()
    assert config.file is not None
    assert config.file.read_text() == FILE
    os.close(descriptor)
    thread.join(60)
    assert config.file.read_text() == FILE.replace("9926", "80")


def test_a_fault_leaves_the_file(config: Config) -> None:
    for change in ({"http__port": "x"}, {"logging__level": "loud"}):
        with pytest.raises(ConfigError) as caught:
            edit(config, **change)
        assert "(svc-config.yaml" not in str(caught.value)  # it is not in the file
    assert config.file is not None
    assert config.file.read_text() == FILE
    assert not (config.root / "backup").exists()


def test_a_fault_that_is_in_the_file_already_is_placed(config: Config) -> None:
    assert config.file is not None
    config.file.write_text(FILE + "mqtt: {webSocket: 5}\n")
    with pytest.raises(ConfigError, match=r"^'mqtt\.webSocket' must be a boolean \(svc-config\.yaml line 5\)$"):
        edit(config, http__port=80)


def test_a_copy_that_cannot_be_made_stops_nothing(config: Config) -> None:
    (config.root / "backup").write_text("in the way")
    result = edit(config, http__port=80)
    assert result.notes[0][0] == "error"
    assert result.config.http.port == 80


def test_edits_at_once_are_all_kept(config: Config) -> None:
    names = ["http.timeout", "http.headersTimeout", "http.keepAliveTimeout", "http.compressionThreshold"]
    threads = [
        threading.Thread(target=edit, args=(config,), kwargs={name.replace(".", "__"): 1 + number}) for number, name in enumerate(names)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert config.file is not None
    document = read_document(config.file)
    assert [document["http"][name.partition(".")[2]] for name in names] == [1, 2, 3, 4]


def of(config: Config, document: Document) -> list[str]:
    return waiting_for_restart(config, Config.from_document(document, config.root))


def test_what_waits_for_a_restart(tmp_path: Path) -> None:
    config = Config.from_document({"http": {"port": 1}, "shop": {"package": "x", "logging": {"level": "info"}}}, tmp_path)
    same: Document = {"http": {"port": 1}, "shop": {"package": "x", "logging": {"level": "info"}}}
    assert of(config, same) == []
    assert of(config, changed(same, {"http.port": 2, "mqtt.webSocket": False})) == ["http.port", "mqtt.webSocket"]
    assert (
        of(config, changed(same, {"logging.level": "debug", "logging.rotation.maxSize": "1K", "storage.logging": {"level": "info"}})) == []
    )
    assert of(config, changed(same, {"logging.auditLog": False, "logging.auditRetention": "1d"})) == [
        "logging.auditLog",
        "logging.auditRetention",
    ]
    assert of(config, changed(same, {"http.logging": {"level": "info"}})) == ["http.logging"]
    assert of(config, changed(same, {"shop.logging.level": "debug"})) == []
    assert of(config, changed(same, {"shop.package": "y", "blog": {"package": "z"}})) == ["shop", "blog"]
    logged = Config.from_document({"http": {"logging": {"level": "info"}}}, tmp_path)
    assert of(logged, {"http": {"logging": {"level": "debug", "path": "log/x.log"}}}) == []
    assert of(logged, {"http": {"logging": {"timing": False}}}) == ["http.logging"]
