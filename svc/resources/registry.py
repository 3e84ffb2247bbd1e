"""Addresses and the resources that answer there (contract: http §1.1, applications §10.4, §13).

An address is a path without slashes at its ends; "" is the root, the last resort. Matching is case-sensitive and by whole segments; the longest
registered address wins.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from svc.resources.resource import Resource

if TYPE_CHECKING:
    from svc.store import Table


@dataclass(slots=True)
class Registration:
    """One address. `export_types`: protocol -> flag; an absent protocol is visible.

    `fault`: why every request there is answered 500 (two resources claim the address, a load error), "" if it works.
    """

    path: str
    resource: type[Resource]
    export_types: Mapping[str, bool] = field(default_factory=dict)
    fault: str = ""

    def visible(self, protocol: str | None) -> bool:
        return protocol is None or self.export_types.get(protocol, True)


@dataclass(slots=True)
class Match:
    """`relative_url`: what follows the address, percent-encoded: "" (the address itself), "/" or "/42"."""

    registration: Registration
    relative_url: str

    @property
    def Resource(self) -> type[Resource]:
        return self.registration.resource

    @property
    def path(self) -> str:
        return self.registration.path

    @property
    def export_types(self) -> Mapping[str, bool]:
        return self.registration.export_types


class Resources(Mapping[str, Registration]):
    """The registry of one server instance."""

    def __init__(self) -> None:
        self._by_path: dict[str, Registration] = {}
        self._deepest = 1  # segments of the longest registered address

    def set(self, name: str, resource: type[Resource], export_types: Mapping[str, bool] | None = None) -> Registration:
        """Register `resource` at the address `name`. A different resource already there: both are shut off until one goes."""
        path = name.strip("/")
        previous = self._by_path.get(path)
        registration = Registration(path, resource, export_types or {})
        if previous is not None and not previous.resource.replaces(resource):
            registration.fault = f"Conflicting paths for {path}"
        self._by_path[path] = registration
        self._deepest = max(self._deepest, path.count("/") + 1)
        return registration

    def remove(self, name: str) -> None:
        self._by_path.pop(name.strip("/"), None)

    def remove_table(self, table: Table) -> None:
        """Remove every address of a table that is no longer there."""
        gone = [path for path, registration in self._by_path.items() if getattr(registration.resource, "table", None) is table]
        for path in gone:
            del self._by_path[path]

    def addresses_of(self, table: Table) -> list[str]:
        """The addresses of a table that answer over REST, as paths: `/Plant`."""
        return [
            f"/{registration.path}"
            for registration in self._by_path.values()
            if getattr(registration.resource, "table", None) is table and registration.visible("rest")
        ]

    def get_match(self, path: str, export_type: str | None = None) -> Match | None:
        """The resource for a request path ("/Product/42", still percent-encoded), or None."""
        found = self.find(path, export_type)
        return None if found is None else Match(*found)

    def find(self, path: str, export_type: str | None = None) -> tuple[Registration, str] | None:
        """The same as (registration, relative URL), for the path of every request."""
        by_path = self._by_path
        if self._deepest == 1:
            slash = path.find("/", 1)
            found = by_path.get(path[1:] if slash < 0 else path[1:slash])
            if found is not None and found.path and (not found.export_types or found.visible(export_type)):
                return found, "" if slash < 0 else path[slash:]
        else:
            segments = path[1:].split("/", self._deepest)
            for count in range(min(self._deepest, len(segments)), 0, -1):
                address = "/".join(segments[:count])
                found = by_path.get(address)
                if found is not None and address and found.visible(export_type):
                    return found, path[1 + len(address) :]
        # `/Product.csv`: the address before an extension
        stem, dot, extension = path[1:].rpartition(".")
        if dot and "/" not in extension:
            found = by_path.get(stem)
            if found is not None and stem and found.visible(export_type):
                return found, "." + extension
        found = by_path.get("")
        if found is not None and found.visible(export_type):
            return found, path
        return None

    def __getitem__(self, name: str) -> Registration:
        return self._by_path[name.strip("/")]

    def __iter__(self) -> Iterator[str]:
        return iter(self._by_path)

    def __len__(self) -> int:
        return len(self._by_path)
