"""Tracebacks as the author of an application needs them: from the first line of their own on, without the inside of svc between theirs."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator

MAX_LINES = 80

_OWN = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep
_FRAME = re.compile(r'  File "([^"]*)", line \d+')
HEAD = "Traceback (most recent call last):"


def own_traceback(text: str, is_application: Callable[[str], bool]) -> str:
    """What `traceback.format_exception` has made, without the frames before the first of an application and those of svc and of imports after it. A
    traceback without any of an application stays as it is. Very long ones lose their middle.

    >>> text = '''Traceback (most recent call last):
    ...   File "/lib/svc/rest/rest.py", line 3, in handle
    ...     call()
    ...   File "/shop/resources.py", line 8, in get
    ...     import helpers
    ...   File "<frozen importlib._bootstrap>", line 9, in _load
    ...   File "/shop/helpers.py", line 2, in <module>
    ...     1 / 0
    ... ZeroDivisionError: division by zero
    ... '''
    >>> print(own_traceback(text, lambda name: name.startswith("/shop/")))
    Traceback (most recent call last):
      File "/shop/resources.py", line 8, in get
        import helpers
      File "/shop/helpers.py", line 2, in <module>
        1 / 0
    ZeroDivisionError: division by zero
    """
    lines: list[str] = []
    for section in _sections(text.rstrip("\n").split("\n")):
        lines += _own_part(section, is_application)
    if len(lines) > MAX_LINES:
        half = MAX_LINES // 2
        lines[half:-half] = [f"  ... {len(lines) - MAX_LINES} lines ..."]
    return "\n".join(lines)


def _sections(lines: list[str]) -> Iterator[list[str]]:
    """The tracebacks of a chain of exceptions, each with what follows it."""
    section: list[str] = []
    for line in lines:
        if line == HEAD and section:
            yield section
            section = []
        section.append(line)
    yield section


def _own_part(lines: list[str], is_application: Callable[[str], bool]) -> list[str]:
    if not any((match := _FRAME.match(line)) is not None and is_application(match[1]) for line in lines):
        return lines
    kept: list[str] = []
    has_begun = is_kept = False
    for line in lines:
        match = _FRAME.match(line)
        if match is not None:
            is_own = is_application(match[1])
            has_begun = has_begun or is_own
            is_kept = has_begun and (is_own or not _is_internal(match[1]))
        elif not line.startswith("    ") and not line.startswith("  [Previous line repeated"):
            is_kept = True
        if is_kept:
            kept.append(line)
    return kept


def _is_internal(filename: str) -> bool:
    return filename.startswith((_OWN, "<frozen importlib")) or filename.endswith("/importlib/__init__.py")
