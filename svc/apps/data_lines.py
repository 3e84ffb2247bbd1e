"""The lines on which the records of a file begin, for what is said about faulty ones (spec: components §1.1)."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

from svc.apps.reading import read_limited

LARGEST = 4 << 20  # bytes: of larger files no lines are told, for the file is read once more to find them
_SPACE = re.compile(r"[ \t\r\n]*")
_decode = json.JSONDecoder(strict=False).raw_decode


def record_lines(path: Path) -> list[int]:
    """Counted from 1, in the order of the records; fewer than there are where they are not known. Blocks, and yields to other threads."""
    try:
        raw = read_limited(path, LARGEST)
        if len(raw) > LARGEST:
            return []
        text = raw.decode("utf-8-sig")
        return list(_json_lines(text) if path.suffix.lower() == ".json" else _yaml_lines(text))
    except (OSError, ValueError, RecursionError, IndexError, yaml.YAMLError):  # it has been changed since its records were read
        return []


def _json_lines(text: str) -> Iterator[int]:
    """Of the last member `records` of an object.

    >>> list(_json_lines('{"table": "t",\\n "records": [{"id": 1}, {"id":\\n 2},\\n 3]}'))
    [2, 2, 4]
    """
    starts: list[int] = []
    position = _behind_space(text, _behind_space(text, 0) + 1)
    while text[position] != "}":
        name, position = _decode(text, position)
        position = _behind_space(text, _behind_space(text, position) + 1)
        if name == "records" and text[position] == "[":
            starts, position = _elements(text, position)
        else:
            _, position = _decode(text, position)
        position = _behind_space(text, position)
        if text[position] == ",":
            position = _behind_space(text, position + 1)
    line, counted = 1, 0
    for start in starts:
        line += text.count("\n", counted, start)
        counted = start
        yield line


def _elements(text: str, position: int) -> tuple[list[int], int]:
    """(where the elements of the array begin that begins here, position behind it)."""
    starts = []
    position = _behind_space(text, position + 1)
    while text[position] != "]":
        starts.append(position)
        _, position = _decode(text, position)
        position = _behind_space(text, position)
        if text[position] == ",":
            position = _behind_space(text, position + 1)
    return starts, position + 1


def _behind_space(text: str, position: int) -> int:
    found = _SPACE.match(text, position)
    assert found is not None
    return found.end()


def _yaml_lines(text: str) -> Iterator[int]:
    """Of the member `records` of a mapping that is written as a list.

    >>> list(_yaml_lines("table: t\\nrecords:\\n- id: 1\\n  a: [x]\\n- {id: 2}\\n"))
    [3, 5]
    """
    depth = 0
    names = 0  # scalars and containers of the outermost mapping, its names among them
    is_records = is_inside = False
    events: Any = yaml.parse(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))
    for event in events:
        kind = type(event)
        if kind in (yaml.MappingEndEvent, yaml.SequenceEndEvent):
            depth -= 1
            is_inside = is_inside and depth >= 2
            continue
        if kind not in (yaml.ScalarEvent, yaml.AliasEvent, yaml.MappingStartEvent, yaml.SequenceStartEvent):
            continue
        if depth == 2 and is_inside:
            yield event.start_mark.line + 1
        elif depth == 1:
            names += 1
            if names % 2:
                is_records = kind is yaml.ScalarEvent and event.value == "records"
            else:
                is_inside = is_records and kind is yaml.SequenceStartEvent
        depth += kind in (yaml.MappingStartEvent, yaml.SequenceStartEvent)
