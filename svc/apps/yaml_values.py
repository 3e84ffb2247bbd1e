"""YAML read as JSON is: objects with text for names, lists, text, numbers, true, false, null (YAML 1.2.2, §10.3, the core schema).

Times, `yes`, `on` and `12:30` are text, as they are in JSON. Anchors, aliases and merge keys (`<<`) work. There is one document in a file.

The values are made from the events of the parser, without recursion: the loader of the C library ends the process at a depth of some ten thousand.
"""

from __future__ import annotations

import re
from typing import Any

import yaml

_LIBYAML_DEPTH = "exceeded maximum nesting depth"  # newer releases of libyaml stop at 1000 levels, and scan ahead of their events
MAX_DEPTH = 500  # containers within containers, as in JSON
MAX_MERGED = 5_000_000  # members that `<<` brings in a document: a short text could fill the memory

_INT = re.compile(r"[-+]?[0-9]{1,400}|0o[0-7]{1,400}|0x[0-9a-fA-F]{1,400}", re.ASCII)
_FLOAT = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?|[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)", re.ASCII)
_CONSTANTS: dict[str, Any] = {
    **dict.fromkeys(("", "~", "null", "Null", "NULL"), None),
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
}
_TAG = "tag:yaml.org,2002:"
_PLAIN_TAGS = frozenset((f"{_TAG}int", f"{_TAG}float", f"{_TAG}bool", f"{_TAG}null"))
_TEXT_TAGS = frozenset(("!", f"{_TAG}str", f"{_TAG}timestamp"))
_MERGE = object()


def scalar(text: str) -> Any:
    """The value of a scalar without quotes.

    >>> [scalar(text) for text in ("12", "0o14", "1e3", "true", "yes", "", "2024-01-05", "12:30", "-.inf", "1_000")]
    [12, 12, 1000.0, True, 'yes', None, '2024-01-05', '12:30', -inf, '1_000']
    """
    if text in _CONSTANTS:
        return _CONSTANTS[text]
    first = text[0]
    if not (first.isdigit() or first in "+-."):
        return text
    if _INT.fullmatch(text):
        return int(text[2:], 8 if text[1] == "o" else 16) if text[:2] in ("0o", "0x") else int(text)
    if _FLOAT.fullmatch(text):
        return float(text.lower().replace(".", "") if text[-1].isalpha() else text)  # `.inf` and `.nan` have no point in Python
    return text


class _Container:
    """An open list or object. `name`: of the member that comes next, None: a name comes next. `merged`: what `<<` has brought."""

    __slots__ = ("anchor", "merged", "name", "value")

    def __init__(self, value: Any, anchor: str | None) -> None:
        self.value = value
        self.anchor = anchor
        self.name: Any = None
        self.merged: list[dict[str, Any]] = []

    def add(self, value: Any, event: Any) -> None:
        if type(self.value) is list:
            self.value.append(value)
        elif self.name is _MERGE:
            found = value if type(value) is list else [value]
            if any(type(each) is not dict for each in found):
                raise _fault(event, "'<<' needs an object, or a list of objects")
            self.merged += found
            self.name = None
        elif self.name in self.value:
            raise _fault(event, f"'{str(self.name)[:100]}' is there a second time in the same object")
        else:
            self.value[self.name] = value
            self.name = None

    def close(self) -> Any:
        for each in self.merged:
            for name, value in each.items():
                self.value.setdefault(name, value)
        return self.value


def read_yaml(text: bytes) -> Any:
    """The value of a document; None of an empty one. Raises ValueError with the line."""
    try:
        return _read(text)
    except yaml.YAMLError as error:
        raise ValueError(yaml_fault(error)) from None
    except UnicodeDecodeError as error:
        raise ValueError(f"it is not UTF-8: byte {error.start}") from None


def yaml_fault(error: yaml.YAMLError) -> str:
    """What is wrong in a document, and where, in one line."""
    if isinstance(error, yaml.MarkedYAMLError):
        mark = error.problem_mark or error.context_mark
        place = "" if mark is None else f"line {mark.line + 1}, column {mark.column + 1}: "
        problem = "it is nested too deeply" if error.problem == _LIBYAML_DEPTH else error.problem
        return f"{place}{problem or error.context or 'it is no YAML'}"
    return str(error).splitlines()[0] if str(error) else "it is no YAML"


def _read(text: bytes) -> Any:
    stack: list[_Container] = []
    anchors: dict[str, Any] = {}
    result: Any = None
    documents = merged = 0
    events: Any = yaml.parse(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))
    for event in events:
        kind = type(event)
        if kind is yaml.ScalarEvent:
            if stack and type(stack[-1].value) is dict and stack[-1].name is None:
                is_merge = event.value == "<<" and event.implicit[0]
                stack[-1].name = _MERGE if is_merge else event.value
                continue
            value = _value_of(event)
            if event.anchor is not None:
                anchors[event.anchor] = value
        elif kind is yaml.SequenceStartEvent or kind is yaml.MappingStartEvent:
            is_list = kind is yaml.SequenceStartEvent
            if event.tag is not None and event.tag not in ("!", f"{_TAG}seq" if is_list else f"{_TAG}map"):
                raise _fault(event, f"the tag {event.tag[:100]} is not known")
            if stack and type(stack[-1].value) is dict and stack[-1].name is None:
                raise _fault(event, "a key must be a string")
            if len(stack) >= MAX_DEPTH:
                raise _fault(event, "it is nested too deeply")
            stack.append(_Container([] if is_list else {}, event.anchor))
            continue
        elif kind is yaml.SequenceEndEvent or kind is yaml.MappingEndEvent:
            closed = stack.pop()
            merged += sum(map(len, closed.merged))
            if merged > MAX_MERGED:
                raise _fault(event, f"'<<' has brought more than {MAX_MERGED} members: write them out, or into several files")
            value = closed.close()
            if closed.anchor is not None:
                anchors[closed.anchor] = value
        elif kind is yaml.AliasEvent:
            if stack and type(stack[-1].value) is dict and stack[-1].name is None:
                raise _fault(event, "a key must be a string")
            if event.anchor not in anchors:
                raise _fault(event, f"there is no anchor {event.anchor[:100]} before it that is complete")
            value = anchors[event.anchor]
        else:
            if kind is yaml.DocumentStartEvent:
                documents += 1
                if documents > 1:
                    raise _fault(event, "there is more than one document")
            continue
        if stack:
            stack[-1].add(value, event)
        else:
            result = value
    return result


def _value_of(event: Any) -> Any:
    tag, text = event.tag, event.value
    if tag is None:
        return scalar(text) if event.implicit[0] else text
    if tag in _TEXT_TAGS:
        return text
    if tag in _PLAIN_TAGS:
        value = scalar(text)
        if type(value) is str:
            raise _fault(event, f"{text[:100]!r} is no {tag[len(_TAG) :]}")
        return value
    if tag == f"{_TAG}binary":
        return "".join(text.split())  # Base64, as in JSON
    raise _fault(event, f"the tag {tag[:100]} is not known")


def _fault(event: Any, text: str) -> ValueError:
    return ValueError(f"line {event.start_mark.line + 1}, column {event.start_mark.column + 1}: {text}")
