"""`text/yaml`, write only (spec: http §7.1): values in JSON form, but bytes as `!!binary`. A collection is a sequence, one dump per batch."""

from __future__ import annotations

from typing import Any

import yaml

from svc.content.content_type import ANY_SHAPE, ContentType, Shape
from svc.content.heavy_rows import Weight
from svc.content.values import json_form, unencodable, without_lone_surrogates
from svc.store.values.records import decode_json_many as decode_stored_many

# libyaml's emitter is in all wheels of PyYAML; without it the same is slower.
_Base: Any = getattr(yaml, "CSafeDumper", yaml.SafeDumper)
_UNFOLDED = 1 << 30  # columns


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


class YamlType(ContentType):
    name = content_type = "text/yaml"
    q = 0.7
    reads = False  # such a body is raw content (spec: http §7.4)

    def encode(self, value: Any) -> bytes:
        return encode_yaml(value)

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

    def pieces(self, row: Any, weight: Weight) -> None:
        return None

    def failure(self, error: dict[str, Any]) -> bytes | None:
        return None

    def end(self) -> bytes:
        return b"[]\n" if self._empty else b""
