"""docs/spec/mqtt-statements.md has each statement of the two standards once, and names tests that exist."""

from __future__ import annotations

import ast
import functools
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "spec" / "mqtt-statements.md").read_text("utf-8")

# How many statements each section of the standards has, numbered from 1 (but MQTT-2.2.1 of version 5, which begins with 2).
VERSION_3 = {
    "1.5.3": 3, "2.2.2": 2, "2.3.1": 7, "3.1.0": 2, "3.1.2": 24, "3.1.3": 11, "3.1.4": 5, "3.2.0": 1, "3.2.2": 6, "3.3.1": 12, "3.3.2": 3,
    "3.3.4": 1, "3.3.5": 2, "3.6.1": 1, "3.8.1": 1, "3.8.3": 4, "3.8.4": 6, "3.9.3": 2, "3.10.1": 1, "3.10.3": 2, "3.10.4": 6, "3.12.4": 1,
    "3.14.1": 1, "3.14.4": 3, "4.1.0": 2, "4.3.1": 1, "4.3.2": 2, "4.3.3": 2, "4.4.0": 1, "4.5.0": 2, "4.6.0": 6, "4.7.1": 3, "4.7.2": 1,
    "4.7.3": 4, "4.8.0": 2, "6.0.0": 4, "7.0.0": 2, "7.1.1": 1, "7.1.2": 1,
}  # fmt: skip
VERSION_5 = {
    "1.5.4": 3, "1.5.5": 1, "1.5.7": 1, "2.1.3": 1, "2.2.1": 6, "2.2.2": 1, "3.1.0": 2, "3.1.2": 30, "3.1.3": 12, "3.1.4": 6, "3.2.0": 2,
    "3.2.2": 22, "3.3.1": 13, "3.3.2": 20, "3.3.4": 10, "3.4.2": 3, "3.5.2": 3, "3.6.1": 1, "3.6.2": 3, "3.7.2": 3, "3.8.1": 1, "3.8.3": 5,
    "3.8.4": 8, "3.9.2": 2, "3.9.3": 2, "3.10.1": 1, "3.10.3": 2, "3.10.4": 6, "3.11.2": 2, "3.11.3": 2, "3.12.4": 1, "3.14.0": 1,
    "3.14.1": 1, "3.14.2": 4, "3.14.4": 3, "3.15.1": 1, "3.15.2": 3, "4.1.0": 2, "4.2.0": 1, "4.3.1": 1, "4.3.2": 5, "4.3.3": 13,
    "4.4.0": 2, "4.5.0": 2, "4.6.0": 6, "4.7.0": 1, "4.7.1": 2, "4.7.2": 1, "4.7.3": 4, "4.8.2": 6, "4.9.0": 3, "4.12.0": 7, "4.12.1": 2,
    "4.13.1": 1, "4.13.2": 1, "6.0.0": 4,
}  # fmt: skip
SHORT = {
    "packets": "unit/protocol/test_mqtt_statements.py",
    "broker": "integration/test_mqtt_statements.py",
    "shared": "integration/test_mqtt_shared.py",
}
WITHOUT_A_TEST = re.compile(r"(?:Does not apply|Not met|To come)\b")


def section(title: str) -> str:
    return PAGE.partition(f"{title}\n")[2].partition("\n## ")[0]


def rows(text: str) -> list[tuple[str, str, str]]:
    """(number, what, tests)"""
    lines = [line for line in text.splitlines() if line.startswith("|")][2:]
    found = [re.fullmatch(r"\| MQTT-(\d+\.\d+\.\d+-\d+) \| ([^|]+) \| ([^|]+) \|", line) for line in lines]
    assert all(found), [line for line, match in zip(lines, found, strict=True) if match is None]
    return [(match[1], match[2], match[3]) for match in found if match is not None]


STANDARDS = {
    "3.1.1": (rows(section("## 1. MQTT 3.1.1")), VERSION_3, "- **3.1** "),
    "5": (rows(section("## 2. MQTT 5")), VERSION_5, "- **3.2** "),
}


def order(number: str) -> list[int]:
    return [int(part) for part in re.split(r"[.-]", number)]


@functools.cache
def names_in(file: str) -> set[str]:
    tree = ast.parse((ROOT / "tests" / file).read_text("utf-8"))
    return {node.name for node in tree.body if isinstance(node, ast.FunctionDef) and node.name.startswith("test_")}


@pytest.mark.parametrize("standard", STANDARDS)
def test_each_statement_is_there_once(standard: str) -> None:
    found, counts, of_clients = STANDARDS[standard]
    numbers = [number for number, _, _ in found]
    assert numbers == sorted(set(numbers), key=order)
    (line,) = [line for line in section("## 3. Statements for clients alone").splitlines() if line.startswith(of_clients)]
    left = re.findall(r"MQTT-(\d+\.\d+\.\d+-\d+)", line)
    assert left == sorted(set(left), key=order) and not set(left) & set(numbers)
    every = {f"{part}-{number}" for part, count in counts.items() for number in range(1, count + 1)} - {"2.2.1-1"}
    assert set(numbers) | set(left) == every


@pytest.mark.parametrize("standard", STANDARDS)
def test_the_tests_exist(standard: str) -> None:
    for number, what, cell in STANDARDS[standard][0]:
        if cell == "—":
            assert WITHOUT_A_TEST.search(what), number
            continue
        named = re.findall(r"`([^`]+)`", cell)
        assert ", ".join(f"`{each}`" for each in named) == cell and named, number
        for each in named:
            file, _, name = each.partition("::")
            assert name in names_in(SHORT.get(file, file)), f"{number}: {each}"


def test_each_test_of_a_statement_is_named() -> None:
    """What stands in the two files for the statements is on the page."""
    for short in ("packets", "broker"):
        file = SHORT[short]
        named = set(re.findall(rf"`{short}::(\w+)`", PAGE))
        assert names_in(file) - named <= NOT_NUMBERED, short


# What the standards say without a number.
NOT_NUMBERED = {"test_which_property_may_be_in_which_packet"}
