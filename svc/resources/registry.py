"""Addresses and the resources that answer there (spec: http §1.1, configuration §9.1, architecture §11).

An address is a path without slashes at its ends; "" is the root, the last resort. Matching is case-sensitive and by whole segments; the longest
registered address wins. It is looked for in the raw path of a request, so it is kept as that has it: with what cannot stand in a path percent-encoded.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING
from urllib.parse import quote

from svc.resources.resource import Resource
from svc.resources.target import decode_path, escape_first

if TYPE_CHECKING:
    from svc.store import Table


@dataclass(slots=True)
class Registration:
    """One address. `export_types`: protocol -> flag; an absent protocol is visible.

    `fault`: why nothing there is served, "" if it works: two resources claim the address (500), or, with `is_unloaded`, one of them could not be loaded
    (503). `load_fault`: the load error of what should answer here. `owner`: what it goes with, a part of an application; None: it stays.
    """

    path: str
    resource: type[Resource]
    export_types: Mapping[str, bool] = field(default_factory=dict)
    fault: str = ""
    pattern: tuple[str, ...] | None = None  # segments, if some of them are parameters: `:city` is one segment, `*rest` all that follow
    load_fault: str = ""
    owner: object = None
    is_unloaded: bool = False

    def parameters(self, path: str) -> dict[str, str]:
        """The values of the parameters in the path of a request that has been found to match. Raises ClientError 400 for bad escapes."""
        found: dict[str, str] = {}
        segments = path[1:].split("/")
        for number, part in enumerate(self.pattern or ()):
            if part[:1] == ":":
                found[part[1:]] = decode_path(segments[number])
            elif part[:1] == "*":
                found[part[1:] or "wildcard"] = decode_path("/".join(segments[number:]))
        return found

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
        self._claims: dict[str, list[Registration]] = {}  # all that want an address, the latest last
        self.version = 0
        """Grows with each change."""
        self.reserved: set[str] = set()  # paths at which something else answers, before resources are looked for
        self._deepest = 1  # segments of the longest registered address
        self._patterns: list[Registration] = []  # the most specific first

    def set(
        self, name: str, resource: type[Resource], export_types: Mapping[str, bool] | None = None, *, owner: object = None
    ) -> Registration:
        """Register `resource` at the address `name`. A different resource already there: both are shut off until one goes. Raises ValueError."""
        registration = make_registration(name, resource, export_types, owner=owner)
        self.change([registration])
        return registration

    def change(self, added: Iterable[Registration], removed: Iterable[Registration] = ()) -> None:
        """Add and remove registrations in one go. One of the same resource by the same owner at the same address is replaced."""
        touched: dict[str, None] = {}
        gone = {id(each) for each in removed}
        for each in removed:
            raw = _raw(each.path)
            if raw in self._claims:
                self._claims[raw] = [claim for claim in self._claims[raw] if id(claim) not in gone]
                touched[raw] = None
        for each in added:
            raw = _raw(each.path)
            others = [
                claim for claim in self._claims.get(raw, ()) if claim.owner is not each.owner or not claim.resource.is_same(each.resource)
            ]
            self._claims[raw] = [*others, each]
            touched[raw] = None
        for raw in touched:
            self._settle(raw)
        self._arrange()
        self.version += 1

    def claims(self, name: str) -> list[Registration]:
        """All that want to answer at an address; with more than one that differ, none does."""
        return list(self._claims.get(_raw(name), ()))

    def owned_by(self, owner: object) -> list[Registration]:
        """All registrations that go with `owner`."""
        return [claim for claims in self._claims.values() for claim in claims if claim.owner is owner]

    def remove(self, name: str) -> None:
        self.change((), self.claims(name))

    def remove_table(self, table: Table) -> None:
        """Remove all addresses of a table that no longer exists."""
        self.change((), [claim for claims in self._claims.values() for claim in claims if getattr(claim.resource, "table", None) is table])

    def _settle(self, raw: str) -> None:
        claims = self._claims[raw]
        if not claims:
            del self._claims[raw]
            self._by_path.pop(raw, None)
            return
        newest = claims[-1]
        fault = next((claim.load_fault for claim in claims if claim.load_fault), "")
        is_unloaded = fault != ""
        if not fault and not all(claim is newest or newest.resource.is_same(claim.resource) for claim in claims):
            fault = f"Conflicting paths for {newest.path}"
        for claim in claims:
            claim.fault, claim.is_unloaded = fault, is_unloaded
        self._by_path[raw] = newest

    def _arrange(self) -> None:
        self._deepest = max([1, *(each.path.count("/") + 1 for each in self._by_path.values())])
        self._patterns = sorted((each for each in self._by_path.values() if each.pattern is not None), key=_specificity)

    def addresses_of(self, table: Table) -> list[str]:
        """The addresses of a table that answer over REST, as paths: `/Plant`."""
        return [
            f"/{registration.path}"
            for registration in self._by_path.values()
            if getattr(registration.resource, "table", None) is table and registration.visible("rest") and not registration.fault
        ]

    def get_match(self, path: str, export_type: str | None = None) -> Match | None:
        """The resource for a request path ("/Product/42", still percent-encoded), or None."""
        found = self.find(path, export_type)
        return None if found is None else Match(*found)

    def find(self, path: str, export_type: str | None = None, extensions: bool = True) -> tuple[Registration, str] | None:
        """The same as (registration, relative URL), for the path of every request. `extensions`: whether `/Product.csv` is `/Product`."""
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
        if extensions and dot and "/" not in extension:
            found = by_path.get(stem)
            if found is not None and stem and found.visible(export_type):
                return found, "." + extension
        if self._patterns:
            segments = path[1:].split("/")
            for found in self._patterns:
                used = _matched(found.pattern, segments)
                if used is not None and found.visible(export_type):
                    return found, "" if used >= len(segments) else "/" + "/".join(segments[used:])
        found = by_path.get("")
        if found is not None and found.visible(export_type):
            return found, path
        return None

    def path_to(self, address: str, relative: str) -> str:
        """The absolute path of what is at `relative`, percent-encoded, below the resource at `address`; escaped if another one would answer there."""
        before = f"/{_raw(address)}/" if address else "/"
        path = before + relative
        found = self.find(path, "rest", False)
        if path in self.reserved or (found is not None and found[0].path != address):
            return before + escape_first(relative)
        return path

    def __getitem__(self, name: str) -> Registration:
        return self._by_path[_raw(name)]

    def __iter__(self) -> Iterator[str]:
        return iter([registration.path for registration in self._by_path.values()])

    def __len__(self) -> int:
        return len(self._by_path)


def make_registration(
    name: str, resource: type[Resource], export_types: Mapping[str, bool] | None = None, *, owner: object = None, load_fault: str = ""
) -> Registration:
    """What `Resources.change` adds. Raises ValueError for an address that cannot be matched."""
    path = name.strip("/")
    if not path.isascii():
        try:
            _raw(path)
        except UnicodeEncodeError:
            raise ValueError(f"the address {path!r} is no text: a part of a character stands alone in it") from None
    return Registration(path, resource, export_types or {}, pattern=pattern_of(path), owner=owner, load_fault=load_fault)


def pattern_of(path: str) -> tuple[str, ...] | None:
    """The segments of an address with parameters; None for any other. Raises ValueError for one that cannot be matched.

    >>> pattern_of("tour/:city/*rest"), pattern_of("Product")
    (('tour', ':city', '*rest'), None)
    """
    segments = path.split("/")
    if not any(segment[:1] in (":", "*") for segment in segments):
        return None
    names = [segment[1:] or "wildcard" for segment in segments if segment[:1] in (":", "*")]
    if any(segment[:1] == "*" for segment in segments[:-1]):
        raise ValueError(f"the address '{path}' has more segments behind '*', which stands for all that follow")
    if ":" in segments or len(set(names)) < len(names):
        raise ValueError(f"the address '{path}' has a parameter without a name, or two of one name")
    return tuple(segment if segment[:1] in (":", "*") else _raw(segment) for segment in segments)


def _specificity(registration: Registration) -> tuple[tuple[int, ...], str]:
    """Sorts literal segments before parameters, and these before `*`."""
    pattern = registration.pattern or ()
    return (*(1 if part[:1] == ":" else 2 if part[:1] == "*" else 0 for part in pattern), 3), registration.path


def _matched(pattern: tuple[str, ...] | None, segments: list[str]) -> int | None:
    """How many segments of a path the pattern stands for; None: it does not match."""
    for number, part in enumerate(pattern or ()):
        if part[:1] == "*":
            return len(segments)
        if number >= len(segments) or not segments[number] or (part[:1] != ":" and part != segments[number]):
            return None
    return len(pattern or ())


@lru_cache(1024)
def _raw(name: str) -> str:
    """The address `name` as the path of a request has it.

    >>> _raw("/shop/Product/"), _raw("my goods/größe")
    ('shop/Product', 'my%20goods/gr%C3%B6%C3%9Fe')
    """
    return quote(name.strip("/"), safe="/:@!$&'()*+,;=~")
