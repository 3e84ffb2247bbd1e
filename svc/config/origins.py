"""The source of each value of a configuration, and suggestions for misspelt names, for messages.

A name is looked up by its flat form, the path joined by `_` in lower case, which is also how the environment and the command line spell it.
A missing key has the line of the nearest key around it; a value of a former name has the line of that name.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from difflib import get_close_matches

from svc.config.settings import LEGACY, SETTINGS

_INDEX = re.compile(r"\[\d+\]$")

CLOSE = 0.72
"""Least similarity, from 0 to 1, of a misspelt name: `htpp` and `http` have 0.75."""


def flat_name(path: Iterable[str]) -> str:
    """The name of a path in the environment.

    >>> flat_name(("http", "corsAccessList")), flat_name(("logging.level",))
    ('http_corsaccesslist', 'logging_level')
    """
    return "_".join(path).replace(".", "_").lower()


class Origins:
    """`lines`: path in the file -> line, from 1. `sources`: dotted name -> what set it instead, such as `environment variable HTTP_PORT`."""

    def __init__(
        self, file: str = "", lines: Mapping[tuple[str, ...], int] | None = None, sources: Mapping[str, str] | None = None
    ) -> None:
        self._file = file
        self._lines = {flat_name(path): line for path, line in (lines or {}).items()}
        self._sources = {flat_name((name,)): text for name, text in (sources or {}).items()}

    def of(self, name: str) -> str:
        """The source of the value of this dotted name, or of the nearest key around it; empty if unknown."""
        for candidate in _around(name):
            if candidate in self._sources:
                return self._sources[candidate]
            line = self._lines.get(candidate)
            if line is None:
                line = next((self._lines[old] for old in _FORMER.get(candidate, ()) if old in self._lines), None)
            if line is not None:
                return f"{self._file} line {line}"
        return ""

    def __call__(self, *names: str) -> str:
        """The sources of these names in parentheses behind a space, for the end of a sentence; empty if there are none.

        >>> Origins("svc-config.yaml", {("http", "port"): 3})("http.port")
        ' (svc-config.yaml line 3)'
        """
        sources = list(dict.fromkeys(source for name in names if (source := self.of(name))))
        return f" ({', '.join(sources)})" if sources else ""


_FORMER: dict[str, list[str]] = {}
for _old, _new in LEGACY.items():
    _FORMER.setdefault(flat_name((_new,)), []).append(flat_name((_old,)))


def _around(name: str) -> Iterable[str]:
    """The name, then those of what it lies in."""
    parts = name.split(".")
    while parts:
        yield flat_name(parts)
        shorter = _INDEX.sub("", parts[-1])
        if shorter != parts[-1]:
            parts[-1] = shorter
        else:
            parts.pop()


def nearest(name: str, known: Iterable[str]) -> str:
    """The one of the known names that a misspelt one most likely means, in whatever case; empty if none is near.

    >>> nearest("htpp", ["http", "mqtt"]), nearest("PORT", ["port"]), nearest("colour", ["http"])
    ('http', 'port', '')
    """
    by_lower = {candidate.lower(): candidate for candidate in known}
    found = get_close_matches(name[:200].lower(), list(by_lower), 1, CLOSE)
    return by_lower[found[0]] if found else ""


def nearest_setting(name: str) -> str:
    """The setting, or section, that an unknown dotted name means: one beside it that is spelt alike; else one of the same path written flat,
    or of the same last part, if only one has it; or what a former name is called today.

    >>> nearest_setting("http.prot"), nearest_setting("logging_level"), nearest_setting("http.retention"), nearest_setting("colour")
    ('http.port', 'logging.level', 'logging.rotation.retention', '')
    """
    section, _, last = name.rpartition(".")
    prefix = f"{section}." if section else ""
    beside = nearest(last, {row.name.removeprefix(prefix).partition(".")[0] for row in SETTINGS if row.name.startswith(prefix)})
    if beside:
        return prefix + beside
    if not section and (former := nearest(last, LEGACY)):
        return LEGACY[former]
    by_flat = {flat_name((row.name,)): row.name for row in SETTINGS}
    if not section and flat_name((name,)) in by_flat:
        return by_flat[flat_name((name,))]
    alike = [row.name for row in SETTINGS if row.name.rpartition(".")[2].lower() == last.lower()]
    return alike[0] if len(alike) == 1 else ""


def hint(found: str, before: str = "") -> str:
    """`, did you mean 'x'?`, or nothing. `before`: what is written in front of such names."""
    return f", did you mean '{before}{found}'?" if found else ""
