"""`text/yaml`, write only (spec: http §7.1): values in JSON form, but bytes as `!!binary`. A collection is a sequence, one dump per batch.

The emitter writes about a megabyte a second. So a long value is written in pieces, each a dump of some members or elements, indented to its place; others are
served between them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator
from typing import Any

import yaml

from svc.content.content_type import ANY_SHAPE, ContentType, Shape
from svc.content.heavy_rows import Weight
from svc.content.values import json_form, unencodable, without_lone_surrogates
from svc.store.values.records import decode_json
from svc.store.values.records import decode_json_many as decode_stored_many

# libyaml's emitter is in all wheels of PyYAML; without it the same is slower.
_Base: Any = getattr(yaml, "CSafeDumper", yaml.SafeDumper)
_UNFOLDED = 1 << 30  # columns
LIGHT = 256  # values, or 32 times as many characters: written in 1-3 ms


class _Dumper(_Base):  # type: ignore[misc]
    def ignore_aliases(self, data: Any) -> bool:
        """An object that occurs twice is written twice, as everywhere else."""
        return True


def encode_yaml(value: Any) -> bytes:
    """Raises TypeError."""
    try:
        return _dump(without_lone_surrogates(json_form(value)))
    except RecursionError:
        raise unencodable(value, "text/yaml") from None


def _dump(form: Any) -> bytes:
    text: str = yaml.dump(form, Dumper=_Dumper, sort_keys=False, allow_unicode=True, default_flow_style=False, width=_UNFOLDED)
    return text.encode()


def yaml_pieces(form: Any, indent: bytes = b"") -> Iterator[bytes]:
    """The document of a value in JSON form, in pieces of about LIGHT values; a string is never cut."""
    if not isinstance(form, dict | list) or _is_light(form):
        yield _indented(encode_yaml(form), indent)
        return
    is_list = isinstance(form, list)
    members: Iterable[tuple[Any, Any]] = enumerate(form) if isinstance(form, list) else form.items()
    light: Any = [] if is_list else {}
    for name, value in members:
        if not isinstance(value, dict | list) or _is_light(value):
            if is_list:
                light.append(value)
            else:
                light[name] = value
            if not _is_light(light):
                yield _indented(encode_yaml(light), indent)
                light.clear()
            continue
        if light:
            yield _indented(encode_yaml(light), indent)
            light.clear()
        yield _indented((encode_yaml([0]) if is_list else encode_yaml({name: 0})).removesuffix(b" 0\n") + b"\n", indent)
        yield from yaml_pieces(value, indent + b"  ")
    if light:
        yield _indented(encode_yaml(light), indent)


def _is_light(form: Any) -> bool:
    """Whether it has so few values, and so little text, that it is written at once. Looks at no more than that."""
    left, waiting = LIGHT, [form]
    while waiting:
        value = waiting.pop()
        left -= 1 + (len(value) // 32 if isinstance(value, str | bytes) else 0)
        if isinstance(value, dict | list):
            if len(value) > left:
                return False
            waiting += value.values() if isinstance(value, dict) else value
        if left < 0:
            return False
    return True


def _indented(text: bytes, indent: bytes) -> bytes:
    # Line breaks within scalars are those of quoted ones, which are folded: white space at the beginning of a line does not count.
    return text if not indent else b"".join([indent + line if line.strip() else line for line in text.splitlines(keepends=True)])


async def _in_turns(pieces: Iterator[bytes]) -> bytes:
    found = []
    for piece in pieces:
        found.append(piece)
        await asyncio.sleep(0)
    return b"".join(found)


class YamlType(ContentType):
    name = content_type = "text/yaml"
    q = 0.7
    is_slow = True
    reads = False  # such a body is raw content (spec: http §7.4)

    def encode(self, value: Any) -> bytes:
        return encode_yaml(value)

    def encode_long(self, value: Any) -> Any:
        if _is_light(value):
            return encode_yaml(value)
        return _in_turns(yaml_pieces(value))

    def encode_stored(self, raw: bytes) -> Any:
        return self.encode_long(decode_json(raw))

    def is_light(self, rows: list[Any]) -> bool:
        return _is_light(rows)

    def row_writer(self, shape: Shape = ANY_SHAPE, count: int | None = None) -> YamlRows:
        return YamlRows()


class YamlRows:
    __slots__ = ("_empty",)

    def __init__(self) -> None:
        self._empty = True

    def begin(self) -> bytes:
        return b""

    def rows(self, batch: list[Any]) -> bytes:
        self._empty = False
        return encode_yaml(batch)

    values = rows

    def raw(self, batch: list[bytes]) -> bytes:
        return self.rows(decode_stored_many(batch))

    def steps(self, batch: list[Any]) -> Iterator[bytes]:
        self._empty = False
        return yaml_pieces(json_form(batch))

    def pieces(self, row: Any, weight: Weight) -> Iterator[bytes]:
        return self.steps([row])

    def failure(self, error: dict[str, Any]) -> bytes | None:
        return None

    def end(self) -> bytes:
        return b"[]\n" if self._empty else b""
