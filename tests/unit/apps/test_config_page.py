"""docs/config-yaml.md names the entries that there are, and what it shows is read without a warning."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml

from svc.apps.config_file import ALIASES, DEFAULT_CONFIG
from svc.apps.kinds import KINDS, READ_BY_SERVER, is_built_in

PAGE = (Path(__file__).parents[3] / "docs" / "config-yaml.md").read_text("utf-8")
EXAMPLES = re.findall(r"^```yaml\n(.*?)^```$", PAGE, re.DOTALL | re.MULTILINE)
ROWS = re.findall(r"^\| `(\w+)` \|([^|]*)\|", PAGE, re.MULTILINE)
OF_PLUGINS = {"pluginModule", "extensionModule"}  # of an application that is a plugin: docs/plugins.md


def test_each_entry_has_a_row() -> None:
    assert {name for name, _ in ROWS} == (KINDS.keys() | READ_BY_SERVER) - OF_PLUGINS - ALIASES.keys()


def test_the_usual_files_are_those_of_the_defaults() -> None:
    files = dict(ROWS)
    for name, entry in DEFAULT_CONFIG.items():
        assert isinstance(entry, bool) or f"`{entry['files']}`" in files[name]


def test_the_defaults_are_those_without_the_file() -> None:
    sentence = re.search(r"Without a `config.yaml` there are (.*?)\.", PAGE)
    assert sentence and set(re.findall(r"`(\w+)`", sentence[1])) == DEFAULT_CONFIG.keys()


@pytest.mark.parametrize("example", EXAMPLES)
def test_examples_have_entries_that_there_are(example: str) -> None:
    document = yaml.safe_load(example)
    assert document and all(is_built_in(name) for name in document)
