"""Reading a file of an application that may be anything: of any size, something that never ends, YAML that stands for more than there is memory."""

from __future__ import annotations

import os
import re
import stat
from pathlib import Path
from typing import Any

import yaml

from svc.apps.yaml_values import yaml_fault

MAX_VALUES = 100_000  # of a document, with what its aliases repeat


def read_limited(path: Path, limit: int) -> bytes:
    """The content, up to `limit` + 1 bytes: more are too many. Raises OSError, or ValueError for what is no regular file, such as a pipe, which could
    keep its reader waiting."""
    with open(path, "rb", opener=_open_at_once) as file:  # which closes it if it is a directory
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            raise ValueError("it is no regular file")
        return file.read(limit + 1)


def _open_at_once(path: str, flags: int) -> int:
    """Without waiting for the other end of a pipe."""
    return os.open(path, flags | os.O_NONBLOCK)


def line_of(text: str, key: str) -> str:
    """`:3`, the line of a name in the outermost mapping of a file of YAML; "" if it is not to be found.

    >>> line_of("a: 1\\n'b' : 2", "b"), line_of("a: {b: 1}", "b")
    (':2', '')
    """
    match = re.search(rf"^[\"']?{re.escape(key)}[\"']?[ \t]*:", text, re.MULTILINE)
    return "" if match is None else f":{text.count(chr(10), 0, match.start()) + 1}"


def line_of_path(text: str, path: tuple[str, ...]) -> str:
    """`:3`, the line of the member that these names lead to, or of the last one on the way that is there; "" if there is none.

    >>> line_of_path("a:\\n  b: {c: 1}\\n  d: 2\\n", ("a", "d")), line_of_path("a:\\n  b: 1", ("a", "x")), line_of_path("a", ("b",))
    (':3', ':1', '')
    """
    try:
        node = yaml.compose(text, Loader=yaml.SafeLoader)
    except yaml.YAMLError:
        return ""
    found = ""
    for name in path:
        if not isinstance(node, yaml.MappingNode):
            break
        member = next(((key, value) for key, value in node.value if isinstance(key, yaml.ScalarNode) and key.value == name), None)
        if member is None:
            break
        found = f":{member[0].start_mark.line + 1}"
        node = member[1]
    return found


def load_yaml(raw: bytes) -> Any:
    """The value of a document of YAML 1.1, None of an empty one. Raises ValueError with what is wrong in it."""
    try:
        return _load(raw.decode("utf-8"))
    except yaml.YAMLError as error:
        raise ValueError(yaml_fault(error)) from None
    except UnicodeDecodeError as error:
        raise ValueError(f"is not UTF-8: byte {error.start}") from None
    except RecursionError:
        raise ValueError("is nested too deeply") from None
    except (AttributeError, LookupError) as error:  # PyYAML's, of a value that its tag does not allow, such as `!!bool maybe`
        raise ValueError(f"has a value that is not what its tag says: {error}") from None


def _load(text: str) -> Any:
    loader = yaml.SafeLoader(text)
    try:
        node = loader.get_single_node()
        if node is None:
            return None
        _count(node, {})
        return loader.construct_document(node)
    finally:
        loader.dispose()


def _refuse_doubled(node: yaml.MappingNode) -> None:
    """Raise ValueError for a key that a mapping has twice: YAML has no such mappings (1.2.2, §3.2.1.1), and the parser drops the first one in silence."""
    lines: dict[tuple[str, str], int] = {}
    for key, _ in node.value:
        if isinstance(key, yaml.ScalarNode) and key.value != "<<":
            line, name = key.start_mark.line + 1, (key.tag, key.value)
            if name in lines:
                raise ValueError(f"has '{key.value[:100]}' in line {line} a second time, after line {lines[name]}: put the two together")
            lines[name] = line


def _count(node: yaml.Node, counted: dict[int, int]) -> int:
    """How many values a node stands for: an alias to many, or a merge key, counts as many. Raises ValueError for too many.

    `counted`: id of a node -> what was found; 0 while it is being counted.
    """
    known = counted.get(id(node))
    if known is not None:
        if not known:
            raise ValueError("has a value that contains itself")
        return known
    counted[id(node)] = 0
    members: list[yaml.Node] = []
    if isinstance(node, yaml.SequenceNode):
        members = node.value
    elif isinstance(node, yaml.MappingNode):
        _refuse_doubled(node)
        members = [each for pair in node.value for each in pair]
    count = 1 + sum(_count(each, counted) for each in members)
    if count > MAX_VALUES:
        raise ValueError(f"has more than {MAX_VALUES} values, or its aliases stand for more")
    counted[id(node)] = count
    return count
