"""Values of the configuration file -> Python values: one parser per kind of setting (spec: configuration §2).

A parser gets the value as YAML or JSON gave it, the setting it belongs to and the root directory. It returns the value that the program
uses (seconds, bytes, absolute `Path`, tuple) or raises `ValueError` with the predicate of the sentence: `must be a boolean`.

Durations come out in seconds whatever unit the file uses, sizes in bytes, so no reader has to remember a unit.
"""

import json
import math
import os
import re
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from svc.config.addresses import parse_listen_addresses, parse_networks
from svc.config.hosts import HostPattern, Network, parse_hosts

if TYPE_CHECKING:
    from svc.config.setting import Setting

SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 7 * 86_400, "M": 30 * 86_400}
BYTES = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}
ROTATION_SECONDS = {"M": 60, "H": 3600, "D": 86_400}

SYSTEM_DATABASE = "system"

_NUMBER_AND_UNIT = re.compile(r"(\d+(?:\.\d+)?)\s*([A-Za-z]*)", re.ASCII)


class SettingFault(ValueError):
    """A complete sentence about a bad value, where the specification fixes the whole text."""


class FieldFaults(SettingFault):
    """Faults of several fields of a mapping: `faults` are (dotted name, sentence)."""

    def __init__(self, faults: list[tuple[str, str]]) -> None:
        self.faults = faults
        super().__init__("; ".join(text for _, text in faults))


def whole(number: float) -> float | int:
    """The same number as an int if it has no fraction."""
    return int(number) if float(number).is_integer() else number


def is_number(value: object) -> bool:
    """Whether it is a finite number; YAML knows `.inf` and `.nan`, and calls true a number. Integers beyond the range of floats are not."""
    try:
        return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)
    except OverflowError:
        return False


def parse_duration(value: object, unit: str = "s") -> float | int:
    """Seconds from a number in `unit` (`s` or `ms`), or from a string: a number and `s`, `m`, `h`, `d`, `w` or `M` (30 days).

    >>> parse_duration("1d"), parse_duration(30000, "ms"), parse_duration("1M"), parse_duration(0.5)
    (86400, 30, 2592000, 0.5)
    """
    if isinstance(value, (int, float)) and is_number(value):
        return whole(value / 1000) if unit == "ms" else whole(value)
    match = _NUMBER_AND_UNIT.fullmatch(value.strip()) if isinstance(value, str) else None
    if match is None:
        raise ValueError("must be a duration: a number, or a number followed by s, m, h, d, w or M (30 days)")
    number, suffix = float(match[1]), match[2]
    if not suffix:
        return parse_duration(number, unit)
    if suffix not in SECONDS:
        raise ValueError(f"has an unknown unit of time '{suffix}', available are s, m, h, d, w and M (30 days)")
    return whole(number * SECONDS[suffix])


def parse_size(value: object) -> int:
    """Bytes from a number, or from a string: a number and `K`, `M` or `G` (powers of 1024).

    >>> parse_size("64M"), parse_size(1200)
    (67108864, 1200)
    """
    if isinstance(value, (int, float)) and is_number(value):
        return int(value)
    match = _NUMBER_AND_UNIT.fullmatch(value.strip()) if isinstance(value, str) else None
    if match is None or (match[2] and match[2] not in BYTES):
        raise ValueError("must be a size: a number of bytes, or a number followed by K, M or G")
    return int(float(match[1]) * BYTES.get(match[2], 1))


def _rotation(value: object, name: str, units: Mapping[str, int], unit_text: str, example: str) -> int:
    match = _NUMBER_AND_UNIT.fullmatch(str(value)) if isinstance(value, (str, int, float)) else None
    if match is None:
        raise SettingFault(f"Invalid {name} value. Value should be a number followed by unit e.g. '{example}'")
    if match[2] not in units:
        raise SettingFault(f"Invalid {name} unit. Available units are {unit_text}")
    return int(float(match[1]) * units[match[2]])


def _path(value: object, root: Path) -> Path:
    if not isinstance(value, (str, os.PathLike)) or not str(value) or "\0" in str(value):
        raise ValueError("must be a path")
    try:
        return root / Path(value).expanduser()
    except RuntimeError:
        raise ValueError("begins with ~, and there is no such home directory") from None


def _bool(value: object, setting: "Setting", root: Path) -> bool:
    if not isinstance(value, bool):
        raise ValueError("must be a boolean")
    return value


def _number(value: object, setting: "Setting", root: Path) -> object:
    if not is_number(value):
        raise ValueError("must be a number")
    return value


def _integer(value: object, setting: "Setting", root: Path) -> object:
    if not isinstance(value, (int, float)) or not is_number(value) or not float(value).is_integer():
        raise ValueError("must be a whole number")
    return int(value)


def _port(value: object, setting: "Setting", root: Path) -> object:
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= 65535:
        raise ValueError("must be a port: a number from 0 to 65535")
    return value


def _string(value: object, setting: "Setting", root: Path) -> str:
    if not isinstance(value, str):
        raise ValueError("must be a string")
    return value


def _table(value: object, setting: "Setting", root: Path) -> str:
    """The name of a database, a dot and the name of a table."""
    database, dot, table = value.partition(".") if isinstance(value, str) else ("", "", "")
    if not (dot and database and table) or any(mark in f"{database}{table}" for mark in "./`\0 "):
        raise ValueError("must be the name of a database and of a table with a dot between them: data.Topic")
    if database == SYSTEM_DATABASE:
        raise ValueError(f"must not be a table of the database {SYSTEM_DATABASE}")
    return f"{database}.{table}"


def _choice(value: object, setting: "Setting", root: Path) -> str:
    if not isinstance(value, str) or value.lower() not in setting.choices:
        raise ValueError(f"must be one of [{', '.join(setting.choices)}]")
    return value.lower()


def _list(value: object, setting: "Setting", root: Path) -> tuple[object, ...]:
    if not isinstance(value, list):
        raise ValueError("must be a list")
    return tuple(value)


def _strings(value: object, setting: "Setting", root: Path) -> tuple[object, ...]:
    if not isinstance(value, list) or any(not isinstance(item, str | None) for item in value):
        raise ValueError("must be a list of strings")
    return tuple(value)


def _paths(value: object, setting: "Setting", root: Path) -> tuple[Path, ...]:
    return tuple(_path(item, root) for item in (value if isinstance(value, list | tuple) else [value]))


def _hosts(value: object, setting: "Setting", root: Path) -> tuple[HostPattern, ...]:
    return parse_hosts(value if isinstance(value, list | tuple) else [value])


def _addresses(value: object, setting: "Setting", root: Path) -> tuple[str, ...]:
    return parse_listen_addresses(value)


def _networks(value: object, setting: "Setting", root: Path) -> tuple[Network, ...]:
    return parse_networks(value)


def _duration(value: object, setting: "Setting", root: Path) -> object:
    return parse_duration(value, setting.unit or "s")


def _mapping(value: object, setting: "Setting", root: Path) -> dict[str, Any]:
    """A mapping; if the setting lists fields, the fields that are given, parsed, with dotted names."""
    if not isinstance(value, dict):
        raise ValueError("must be a mapping")
    return parse_fields(value, setting, root) if setting.fields else value


def _switch(value: object, setting: "Setting", root: Path) -> object:
    if isinstance(value, bool):
        return value
    if not isinstance(value, dict):
        raise ValueError("must be a boolean or a mapping")
    return _mapping(value, setting, root)


def _any(value: object, setting: "Setting", root: Path) -> object:
    return value


def _mailbox(value: object, setting: "Setting", root: Path) -> tuple[str, str]:
    from svc.config.mail_address import parse_mailbox  # most configurations have none

    return parse_mailbox(value)


def _rotation_size(value: object, setting: "Setting", root: Path) -> int:
    return _rotation(value, setting.name, BYTES, "G, M or K", "10M")


def _rotation_interval(value: object, setting: "Setting", root: Path) -> int:
    return _rotation(value, setting.name, ROTATION_SECONDS, "D, H or M (minutes)", "10D")


PARSERS: dict[str, Callable[[Any, "Setting", Path], Any]] = {
    "bool": _bool,
    "number": _number,
    "integer": _integer,
    "port": _port,
    "string": _string,
    "table": _table,
    "choice": _choice,
    "level": _choice,
    "list": _list,
    "strings": _strings,
    "path": lambda value, setting, root: _path(value, root),
    "paths": _paths,
    "hosts": _hosts,
    "addresses": _addresses,
    "networks": _networks,
    "mailbox": _mailbox,
    "duration": _duration,
    "size": lambda value, setting, root: parse_size(value),
    "rotation size": _rotation_size,
    "rotation interval": _rotation_interval,
    "mapping": _mapping,
    "switch": _switch,
    "any": _any,
}


def parse(value: object, setting: "Setting", root: Path) -> Any:
    """The value of `setting`, checked and in program units. Raises ValueError, or SettingFault with the whole sentence."""
    result = PARSERS[setting.kind](value, setting, root)
    if is_number(result):
        written = result * 1000 if setting.kind == "duration" and setting.unit == "ms" else result
        if setting.low is not None and written < setting.low:
            raise ValueError(f"must be larger than or equal to {setting.low}")
        if setting.high is not None and written > setting.high:
            raise ValueError(f"must be less than or equal to {setting.high}")
    return result


def fault_text(name: str, error: ValueError) -> str:
    return str(error) if isinstance(error, SettingFault) else f"'{name}' {error}"


def parse_fields(value: dict[str, Any], setting: "Setting", root: Path) -> dict[str, Any]:
    """The fields of a mapping setting that are given, with dotted names; a null counts as not given unless null is a value."""
    result: dict[str, Any] = {}
    faults: list[tuple[str, str]] = []
    for field in setting.fields:
        found = lookup(value, field.name.split("."))
        if found is None and not (field.null and is_given(value, field.name.split("."))):
            continue
        try:
            result[field.name] = None if found is None else parse(found, field.within(setting.name), root)
        except ValueError as error:
            faults.append((f"{setting.name}.{field.name}", fault_text(f"{setting.name}.{field.name}", error)))
    if faults:
        raise FieldFaults(faults)
    return result


def lookup(document: object, path: Iterable[str]) -> Any:
    """The value at `path`, or None if it, or a mapping on the way, does not exist."""
    for part in path:
        if not isinstance(document, dict) or part not in document:
            return None
        document = document[part]
    return document


def is_given(document: object, path: Iterable[str]) -> bool:
    """Whether `path` exists, even with the value null."""
    for part in path:
        if not isinstance(document, dict) or part not in document:
            return False
        document = document[part]
    return True


def cast_text(text: str, kind: str) -> Any:
    """Convert a string from the environment, the command line or `set_configuration` to a value (spec: operations §8).

    `true`, `false`, numbers, JSON objects and lists are parsed, `undefined` and `null` become null. A setting whose kind is a string keeps
    the string, so that a host name may consist of digits.

    >>> cast_text("8080", "port"), cast_text("true", "bool"), cast_text('["*"]', "strings"), cast_text("12", "string")
    (8080, True, ['*'], '12')
    """
    plain = text.strip()
    if plain in ("undefined", "null"):
        return None
    if kind in ("string", "table", "path", "choice", "level", "mailbox"):
        return text
    if plain.lower() in ("true", "false"):
        return plain.lower() == "true"
    if plain[:1] in ("{", "[") or _is_plain_number(plain):
        try:
            return json.loads(plain)
        except (ValueError, RecursionError):
            return text
    return text


def _is_plain_number(text: str) -> bool:
    return re.fullmatch(r"-?(?:0|[1-9]\d*)(?:\.\d+)?", text, re.ASCII) is not None
