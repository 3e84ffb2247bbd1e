"""The interface of a content type: values <-> bytes, one value at a time or a streamed collection (spec: http §7)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Generator, Iterator, Mapping
from copy import copy
from dataclasses import dataclass, field
from typing import Any, ClassVar, Protocol, Self

from svc.content.heavy_rows import ContainerStyle
from svc.messages import HeaderPairs
from svc.store.schema import Attribute
from svc.store.values.records import decode, decode_json

Slices = Generator[None, None, Any]
SLICE_BYTES = 32 << 10  # bytes of a body that are read in one step


def run(slices: Slices) -> Any:
    """Run the generator without pauses; its result."""
    while True:
        try:
            next(slices)
        except StopIteration as end:
            return end.value


def split_windows(body: bytes, separator: bytes) -> Iterator[list[bytes]]:
    """The parts of a body between single bytes `separator`, as many at a time as SLICE_BYTES hold, or one that is longer.

    >>> [list(parts) for parts in split_windows(b"a\\nb\\n\\nc", b"\\n")]
    [[b'a', b'b', b'', b'c']]
    """
    position, size = 0, len(body)
    while position < size:
        end = size
        if size - position > SLICE_BYTES:
            end = body.rfind(separator, position, position + SLICE_BYTES)
            if end < 0:
                end = body.find(separator, position + SLICE_BYTES)
            if end < 0:
                end = size
        yield body[position:end].split(separator)
        position = end + 1


@dataclass(frozen=True, slots=True)
class Shape:
    """The form and columns of the rows of a collection.

    `columns`: names in order, for types that need them before the first row. `form`: "object", "value" (bare values) or "array", as
    `svc.query.nodes.Select.shape`. `open`: records may hold undeclared properties, so CSV adds those of the first record as columns. `types`: the declared
    types of columns, where they are known, as `svc.store.schema.SCALAR_TYPES`.
    """

    columns: tuple[str, ...] = ()
    form: str = "object"
    open: bool = False
    types: Mapping[str, str] = field(default_factory=dict, compare=False)


ANY_SHAPE = Shape()


class RowWriter(Protocol):
    """One collection, written as its rows are found. Every method returns bytes to send, in the order of the calls; `b""` is allowed."""

    def begin(self) -> bytes: ...

    def rows(self, batch: list[Any]) -> bytes:
        """Shaped values of a query, in the form of the type: Python values if it is `native`, else JSON form. `batch` is not empty."""

    def values(self, batch: list[Any]) -> bytes:
        """Values that a handler made, of any type that `ContentType.encode` takes. `batch` is not empty."""

    def raw(self, batch: list[bytes]) -> bytes:
        """Stored records (svc.store.values.records), undecoded: the fast path. `batch` is not empty."""

    def pieces(self, row: Any, weight: Callable[[object], int]) -> Iterator[bytes] | None:
        """`rows` of one row that holds very many related records, in pieces (`heavy_rows`); None: this format writes it as a whole."""

    def failure(self, error: dict[str, Any]) -> bytes | None:
        """The element that reports a failure (spec: http §8); None: this format cannot contain one, so the connection is aborted."""

    def end(self) -> bytes: ...


class SlowRowWriter(RowWriter, Protocol):
    """Of a type that `is_slow`."""

    def steps(self, batch: list[Any]) -> Iterator[bytes]:
        """`rows` in pieces, each of which takes a slice at most. `batch` is not empty."""


class ContentType:
    """One type under one name. Objects are shared by all requests and never change.

    `q`: our quality, 0 to 1. `native`: its values have types of their own (dates, bytes, sets), so values are given and decoded as Python values;
    else in JSON form (`svc.store.values.records.decode_json`). `text_bodies`: native only in what it writes; bodies are in JSON form. `needs_count`:
    `row_writer` must know the number of rows. `reads`: it is a structured type of request bodies. `writes`: negotiation may choose it.
    """

    name: str = ""
    content_type: str = ""
    q: float = 1.0
    native: ClassVar[bool] = False
    text_bodies: ClassVar[bool] = False
    compressible: bool = True
    needs_count: bool = False
    is_slow: ClassVar[bool] = False  # a few hundred values take a slice
    is_tabular: ClassVar[bool] = False  # its rows have columns, which are known before the first one
    style: ContainerStyle | None = None  # how it writes containers member by member, if it can
    headers: HeaderPairs = []  # noqa: RUF012 - further fields of a response, read only
    reads: bool = True
    writes: bool = True

    def under(self, name: str) -> Self:
        """The same type under another of its names, which is then the `Content-Type` of responses."""
        if name == self.name:
            return self
        other = copy(self)
        other.name = other.content_type = name
        return other

    def as_sequence(self) -> ContentType:
        """The type for a client that asked for it with `;sequence=true`; itself for types without sequences."""
        return self

    def encode(self, value: Any) -> bytes:
        """One value, of a query or a handler. Raises TypeError for a value that this type cannot encode: a defect of the handler."""
        raise NotImplementedError

    def encode_long(self, value: Any) -> Any:
        """`encode`, for callers that can wait: perhaps an awaitable of bytes."""
        return self.encode(value)

    def encode_stored(self, raw: bytes) -> Any:
        """The same of one stored record (svc.store.values.records), undecoded: the fast path of `encode`."""
        return self.encode(decode(raw) if self.native else decode_json(raw))

    def plain_steps(self) -> tuple[Callable[[bytes], Any], Callable[[Any], bytes]] | None:
        """The two steps of `encode_stored` for a record of the plain format: its payload to a value, and that to bytes. They raise DAMAGE as it is. None: there
        are no such steps."""
        return None

    def row_writer(self, shape: Shape = ANY_SHAPE, count: int | None = None) -> RowWriter:
        """`count`: the number of rows that will follow, where `needs_count`."""
        raise NotImplementedError

    def is_light(self, rows: list[Any]) -> bool:
        """Whether rows in JSON form are written in one slice, if the type `is_slow`."""
        return True

    def decode(self, body: bytes, parameters: Mapping[str, str], attributes: Mapping[str, Attribute] | None = None) -> Any:
        """The value of a request body. `parameters`: those of its Content-Type, by lower-case name.

        `attributes`: the declared ones of the table that is written, which decide the values of strings (CSV cells, form fields: http §7.3, query §4).
        Raises BadBody (400), with the position.
        """
        raise NotImplementedError

    def decode_slices(self, body: bytes, parameters: Mapping[str, str], attributes: Mapping[str, Attribute] | None = None) -> Slices:
        """`decode` for long bodies: a generator that yields whenever other requests should be served, and returns the value.

        JSON, MessagePack, CBOR, CSV and forms are read in slices of a few milliseconds, whatever their shape.
        """
        return self.decode(body, parameters, attributes)
        yield

    # For applications, on a built-in type of `content_types` (spec: http §7.1).

    def serialize(self, data: Any) -> bytes | str | Awaitable[bytes | str]:
        return self.encode(data)

    def deserialize(self, raw: bytes | str) -> Any:
        return self.decode(raw.encode() if isinstance(raw, str) else raw, {})

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name}>"
