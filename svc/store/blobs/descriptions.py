"""The description that replaces a blob in JSON, and what finds blobs and descriptions in the values of a record (spec: schema-and-store §14.6)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, TypeVar

from svc.errors import ValidationError
from svc.store.blobs.blob import DESCRIPTION, NOT_TEXT, TOO_LONG, Blob

T = TypeVar("T")


_DESCRIPTIONS = frozenset((DESCRIPTION, TOO_LONG, NOT_TEXT))
_DESCRIBED_BY = frozenset(("description", "contentType", "size"))


class BlobDescription:
    """The description of a blob in JSON, in a record that a client sends: the stored blob stays. Without a stored blob of this type and size it is refused.

    The decision is made where the record is that is replaced or changed; one that is left when a record is encoded is refused then.
    """

    __slots__ = ("content_type", "path", "size")
    alive = 0  # how many there are, so that records need not be searched while there are none

    def __init__(self, content_type: str, size: int | None, path: str) -> None:
        """`path`: of the property, for messages."""
        self.content_type = content_type
        self.size = size
        self.path = path
        BlobDescription.alive += 1

    def __del__(self) -> None:
        BlobDescription.alive -= 1

    def describes(self, blob: Blob) -> bool:
        """A size that was not known when the description was made says nothing."""
        return self.content_type == blob.type and (self.size is None or self.size == blob.size)

    def refusal(self) -> ValidationError:
        return ValidationError(
            f"Property {self.path} has the description of a blob, but there is no such blob: give its content, or leave it out"
        )


def maybe_description(value: dict[Any, Any], path: Callable[[], str], *, certain: bool) -> BlobDescription | None:
    """The description of a blob that this object is, if it is one. `path`: returns the path of the property; `certain`: only one with a known text,
    for properties that may have any object."""
    if value.keys() != _DESCRIBED_BY:
        return None
    content_type, size = value["contentType"], value["size"]
    if not isinstance(content_type, str) or not (size is None or type(size) is int) or not isinstance(value["description"], str):
        return None
    if certain and value["description"] not in _DESCRIPTIONS:
        return None
    return BlobDescription(content_type, size, path())


def descriptions_in(value: object) -> Iterator[BlobDescription]:
    """All descriptions in the values of a record, at any depth."""
    return _instances_in(BlobDescription, value)


def blobs_in(value: object) -> Iterator[Blob]:
    """All blobs in the values of a record, at any depth."""
    return _instances_in(Blob, value)


def _instances_in(kind: type[T], value: object) -> Iterator[T]:
    if type(value) is kind:
        yield value
    elif isinstance(value, dict):
        for member in value.values():
            yield from _instances_in(kind, member)
    elif isinstance(value, (list, tuple, set, frozenset)):
        for member in value:
            yield from _instances_in(kind, member)
