"""`resources`: the addresses of a server instance, and what answers there, as application code sees it (spec: applications §10)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from svc.api.resource import Resource
from svc.api.served import serve
from svc.api.thread_guard import REGISTERING, refuse_helper
from svc.resources import Registration, make_registration

if TYPE_CHECKING:
    from svc.api.current import CurrentInterface


@dataclass(frozen=True)
class Entry:
    """What answers at an address. `relative_url`: of a match, what follows the address, percent-encoded: "" or "/42". `fault`: why every request there is
    answered 500, "" if it works."""

    Resource: Any
    path: str
    export_types: Mapping[str, bool]
    relative_url: str = ""
    fault: str = ""


class ResourceRegistry(Mapping[str, Entry]):
    """A mapping address -> entry. Addresses have no slashes at their ends."""

    def __init__(self, interface: CurrentInterface, owner: object = None, register: Callable[[Registration], None] | None = None) -> None:
        """`owner`: what the resources that are set here go with. `register`: takes them, in place of the registry."""
        self._interface = interface
        self._owner = owner
        self._register = register or (lambda registration: interface.registry.change([registration]))

    def set(
        self,
        name: str,
        resource: type[Resource],
        export_types: Mapping[str, bool] | None = None,
        *,
        exportTypes: Mapping[str, bool] | None = None,
    ) -> Entry:
        """Register the class `resource` at the address `name`. `export_types`, `exportTypes`: protocol (`rest`, `ws`, `sse`, `mqtt`, or a name of your own)
        -> whether it is visible there.

        Another class that is there already: both are shut off, each request there is answered 500, until one of them goes. Raises TypeError, ValueError;
        RuntimeError on another thread, and from a version that has been replaced.
        """
        refuse_helper(REGISTERING)
        if not isinstance(name, str):
            raise TypeError(f"the address of a resource is a string, not {type(name).__name__}")
        if not (isinstance(resource, type) and issubclass(resource, Resource)):
            raise TypeError(f"{resource!r} is no class derived from Resource")
        given = export_types if export_types is not None else exportTypes
        if given is not None and not isinstance(given, Mapping):
            raise TypeError("export_types is a mapping protocol -> bool")
        registration = make_registration(name, serve(resource, name.strip("/")), dict(given or {}), owner=self._owner)
        self._register(registration)
        return self._entry(registration, "")

    def remove(self, name: str) -> None:
        """Nothing answers at the address `name` any more."""
        refuse_helper(REGISTERING)
        self._interface.registry.remove(name)

    def get_match(self, path: str, export_type: str | None = None, *, exportType: str | None = None) -> Entry | None:
        """What answers to `path`, or to its beginning, over the protocol `export_type` (or `exportType`); None: nothing does."""
        found = self._interface.registry.find(path if path.startswith("/") else f"/{path}", export_type or exportType)
        return None if found is None else self._entry(*found)

    getMatch = get_match

    def _entry(self, registration: Registration, relative_url: str) -> Entry:
        served: Any = registration.resource
        application = getattr(served, "application", None)
        table = getattr(served, "table", None)
        if application is None and table is not None:
            application = self._interface.databases.of(table.database.name)[table.name]
        return Entry(application or served, registration.path, registration.export_types, relative_url, registration.fault)

    def __getitem__(self, name: str) -> Entry:
        return self._entry(self._interface.registry[name], "")

    def __iter__(self) -> Iterator[str]:
        return iter(self._interface.registry)

    def __len__(self) -> int:
        return len(self._interface.registry)

    def __repr__(self) -> str:
        return f"<resources at {', '.join(f'/{name}' for name in self)}>"
