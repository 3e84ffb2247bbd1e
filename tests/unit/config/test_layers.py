"""SVC_DEFAULT_CONFIG, SVC_CONFIG_JSON, SVC_SET_CONFIG: precedence, and what happens when a name leaves its variable."""

import json
from pathlib import Path
from typing import Any

import pytest

from svc.config import Config, load_config, reread
from svc.config.document import Document, changed, read_document, write_document
from svc.errors import ConfigError

STATE = "backup/.svc-config-state.json"


class Root:
    """A root directory that is started again and again."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.file = path / "svc-config.yaml"
        write_document(
            self.file,
            {"rootPath": str(path), "http": {"port": 9926, "corsAccessList": [None]}, "storage": {"path": str(path / "database")}},
        )

    def start(self, *, env: dict[str, str] | None = None, **layers: Any) -> Config:
        environ = {f"SVC_{name.upper()}_CONFIG".replace("JSON_CONFIG", "CONFIG_JSON"): json.dumps(layer) for name, layer in layers.items()}
        return load_config(self.path, environ={**environ, **(env or {})})

    def edit(self, **changes: object) -> None:
        write_document(self.file, changed(read_document(self.file), {name.replace("__", "."): value for name, value in changes.items()}))

    @property
    def document(self) -> Document:
        return read_document(self.file)


@pytest.fixture
def root(tmp_path: Path) -> Root:
    return Root(tmp_path)


def test_precedence(root: Root) -> None:
    default, layer, forced = {"http": {"port": 11}}, {"http": {"port": 12}}, {"http": {"port": 14}}
    assert root.start(default=default).http.port == 11
    assert root.start(default=default, json=layer).http.port == 12
    assert root.start(default=default, json=layer, env={"HTTP_PORT": "13"}).http.port == 13
    assert root.start(default=default, json=layer, set=forced, env={"HTTP_PORT": "13"}).http.port == 14


def test_without_variables_there_is_no_state(root: Root) -> None:
    root.start()
    assert not (root.path / STATE).exists()
    root.start(json={"http": {"port": 1}})
    assert (root.path / STATE).stat().st_mode & 0o777 == 0o600
    root.start()
    assert not (root.path / STATE).exists()


def test_example_5_the_layer_beats_an_edit_and_gives_it_back(root: Root) -> None:
    root.start(json={"http": {"port": 8082}})
    assert root.document["http"]["port"] == 8082
    root.edit(http__port=9000)
    assert root.start(json={"http": {"port": 8082}}).http.port == 8082
    assert root.start(json={"http": {"port": 8082}}).http.port == 8082
    assert root.start().http.port == 9000


def test_the_original_returns_and_what_was_introduced_goes(root: Root) -> None:
    before = root.document
    layer = {"http": {"port": 1, "cors": False}, "shop": {"package": "x", "deep": {"a": 1}}}
    config = root.start(json=layer)
    assert config.components["shop"] == layer["shop"]
    assert root.start(json={"http": {"port": 1}}).http.cors is True
    assert "shop" not in root.document
    root.start()
    assert root.document == before


def test_a_name_that_leaves_the_forced_layer_is_deleted(root: Root) -> None:
    root.edit(http__port=7000)
    assert root.start(set={"http": {"port": 1}}).http.port == 1
    assert root.start().http.port == 9926
    assert "port" not in root.document["http"]


def test_a_default_yields_to_edits(root: Root) -> None:
    default = {"http": {"port": 8000, "timeout": 5000}, "storage": {"path": "/data"}}
    config = root.start(default=default)
    assert (config.http.port, config.http.timeout, config.storage.path) == (8000, 5, Path("/data"))
    root.edit(http__port=9926)  # by hand, back to the built-in value
    assert root.start(default=default).http.port == 9926
    assert root.start(default=default).http.port == 9926
    config = root.start()
    assert (config.http.port, config.http.timeout, config.storage.path) == (9926, 120, root.path / "database")


def test_a_default_does_not_touch_what_was_chosen_before(root: Root) -> None:
    root.edit(http__port=7000)
    assert root.start(default={"http": {"port": 8000, "corsAccessList": ["a"]}}).http.port == 7000
    assert root.document["http"]["corsAccessList"] == ["a"]  # [null] is what an installation writes


def test_a_deleted_value_is_an_edit_too(root: Root) -> None:
    root.edit(http__timeout=1000)
    root.start(json={"mqtt": {"webSocket": False}})
    document = root.document
    del document["http"]["timeout"]
    write_document(root.file, document)
    assert root.start(json={"mqtt": {"webSocket": False}}).http.timeout == 120
    assert "timeout" not in root.document["http"]


def test_unions_are_ordered_and_idempotent(root: Root) -> None:
    root.edit(http__corsAccessList=["a", "b"])
    layer = {"http": {"corsAccessList": {"$union": ["c", "b", "c"]}}}
    for _ in range(2):
        assert root.start(json=layer).http.cors_access_list == ("a", "b", "c")
    assert root.start().http.cors_access_list == ("a", "b")


def test_other_dollar_keys_are_ordinary_and_lists_replace(root: Root) -> None:
    root.edit(shop={"list": [1, 2], "m": {"a": 1}})
    config = root.start(json={"shop": {"list": [3], "m": {"$set": [1]}}})
    assert config.components["shop"] == {"list": [3], "m": {"a": 1, "$set": [1]}}


def test_single_values_go_with_their_run_and_layers_stay_in_the_file(root: Root) -> None:
    config = root.start(json={"http": {"port": 1, "timeout": 5000}}, env={"HTTP_PORT": "13", "LOGGING_LEVEL": "debug"})
    assert (config.http.port, config.logging.level) == (13, "debug")
    assert root.document["http"] == {"port": 1, "corsAccessList": [None], "timeout": 5000}
    assert "logging" not in root.document
    assert root.start(json={"http": {"port": 1}}).http.port == 1
    assert root.start().http.port == 9926


def test_the_value_of_an_option_is_no_hand_edit(root: Root) -> None:
    root.start(default={"http": {"port": 11}}, env={"HTTP_PORT": "13"})
    assert root.start(default={"http": {"port": 12}}).http.port == 12


def test_a_forced_value_beats_an_option_when_the_file_is_read_again(root: Root) -> None:
    config = root.start(set={"logging": {"level": "info"}}, env={"LOGGING_LEVEL": "debug", "LOGGING_FILE": "false"})
    assert config.overrides == {"logging.file": False}
    assert reread(config).logging.level == "info"


def test_layers_make_no_copies(root: Root) -> None:
    root.start(json={"http": {"port": 1}})
    root.start(json={"http": {"port": 2}}, env={"NODE_HOSTNAME": "n2"})
    assert not list(root.path.glob("backup/*.bak"))


@pytest.mark.parametrize("name", ["SVC_DEFAULT_CONFIG", "SVC_CONFIG_JSON", "SVC_SET_CONFIG"])
@pytest.mark.parametrize("text", ["{", "[]", "1"])
def test_a_bad_variable_is_named(root: Root, name: str, text: str) -> None:
    with pytest.raises(ConfigError, match=name):
        load_config(root.path, environ={name: text})


def test_a_damaged_state_makes_the_file_its_owners(root: Root) -> None:
    root.start(json={"http": {"port": 1}})
    (root.path / STATE).write_text("{")
    assert root.start().http.port == 1
