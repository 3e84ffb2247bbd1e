"""The Python modules of an application: loading, globals, and what they register (spec: applications §10).

Modules of an application live in a package of their own, `svc_apps.<app>`, so two applications may both have a `resources.py`. The names of the in-process
interface are put into each module before it runs.
"""

from __future__ import annotations

import builtins
import importlib
import importlib.abc
import importlib.util
import os
import re
import sys
import traceback
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.machinery import ModuleSpec, SourceFileLoader
from itertools import chain
from pathlib import Path
from types import CodeType, ModuleType, TracebackType
from typing import TYPE_CHECKING, Any

import svc
from svc.api.resource import Resource
from svc.api.served import serve
from svc.api.table_settings import GLOBAL as SETTINGS
from svc.api.table_settings import TableSettings
from svc.apps.compiled import code_of, write_compiled
from svc.apps.files import VOLUME
from svc.apps.load_limit import load_limit
from svc.loop import is_ours
from svc.resources import Registration, make_registration

if TYPE_CHECKING:
    from svc.api.interface import Interface

PACKAGE = "svc_apps"
MOST_MAPPINGS = 1000  # below one name of a module


@dataclass(frozen=True, slots=True)
class ExportedResource:
    """A resource of a module, and the address it asks for, relative to the module's directory."""

    address: str
    resource: type[Resource]


class ModuleFault(Exception):
    """A module that could not be loaded. The message has the place in the application's own code, `details` the traceback from there on."""

    def __init__(self, message: str, details: str = "") -> None:
        super().__init__(message)
        self.details = details


class ApplicationModules:
    """Loads the modules of one version of an application."""

    def __init__(
        self,
        interface: Interface,
        name: str,
        directory: Path,
        config: Mapping[str, Any],
        *,
        server: Any = None,
        settings: TableSettings | None = None,
    ) -> None:
        """`server`: the `server` that the modules see. `settings`: takes what their code sets on tables."""
        self._interface = interface
        self._directory = directory.resolve()
        self._given = Path(os.path.abspath(directory))
        interface.versions += 1
        self.package = f"{PACKAGE}.{re.sub(r'[^0-9A-Za-z_]', '_', name)}_{id(interface):x}_{interface.versions}"
        self._globals: dict[str, Any] = interface.module_globals()
        if settings is not None:
            self._globals[SETTINGS] = settings
        interface.app_configs[self.package] = config
        if server is not None:
            self._globals["server"] = interface.app_servers[self.package] = server
        interface.app_directories[self.package] = name, self._directory
        interface.on_code(self._directory, name)
        self._finder = _ModuleFinder(self)
        self._svc = _InterfaceModule(interface, self.package)
        self._directories: dict[str, bool] = {}  # that are no packages -> whether nothing else has their name
        self._places: dict[str, Path | None] | None = None  # what `find` has found, while a module is loaded
        self.loaded: list[ModuleType] = []
        interface.on_end.append(self.forget)

    def load(self, path: Path) -> ModuleType:
        """Run a module, once. Raises ModuleFault."""
        self._interface.make_current()
        self._make_package()
        try:
            relative = path.resolve().relative_to(self._directory).with_suffix("")
            if any(part.startswith(VOLUME) for part in relative.parts):  # the file is known by the name that the volume gives it
                named = Path(os.path.abspath(path))
                relative = named.relative_to(self._directory if named.is_relative_to(self._directory) else self._given).with_suffix("")
        except ValueError:
            raise ModuleFault("it is a link to a file that is not in the directory of the application") from None
        if any("." in part for part in relative.parts):
            raise ModuleFault("the name of a module, and of its directories, has no '.'")
        name = ".".join((self.package, *relative.parts))
        self._places = {}
        try:
            with load_limit():
                module = importlib.import_module(name)
        except BaseException as error:
            if is_ours(error):
                raise
            raise self.fault_of(error) from error
        finally:
            self._places = None
        if module not in self.loaded:
            self.loaded.append(module)
        return module

    @property
    def interface_module(self) -> ModuleType:
        """The module `svc` as the application sees it."""
        return self._svc

    def use_config(self, config: Mapping[str, Any]) -> None:
        """What the modules see as `config` from now on."""
        self._interface.app_configs[self.package] = config

    def fault_of(self, error: BaseException) -> ModuleFault:
        """What the code of the application has raised, with its place there."""
        return ModuleFault(self._where(error), self.traceback_of(error))

    def forget(self) -> None:
        """Let go of the modules."""
        interface = self._interface
        for name in [name for name in sys.modules if name == self.package or name.startswith(self.package + ".")]:
            del sys.modules[name]
        if self._finder in sys.meta_path:
            sys.meta_path.remove(self._finder)
        self.loaded.clear()
        interface.app_configs.pop(self.package, None)
        interface.app_servers.pop(self.package, None)
        interface.app_directories.pop(self.package, None)
        if self.forget in interface.on_end:
            interface.on_end.remove(self.forget)

    def _make_package(self) -> None:
        for name in (PACKAGE, self.package):
            if name not in sys.modules:
                package = ModuleType(name)
                package.__path__ = []
                sys.modules[name] = package
        if self._finder not in sys.meta_path:
            sys.meta_path.insert(0, self._finder)

    def find(self, name: str) -> Path | None:
        """The file or the directory of a module of this application, by the name it has for the others of it."""
        if self._places is None:
            return self._look_for(name)
        if name not in self._places:
            self._places[name] = self._look_for(name)
        return self._places[name]

    def _look_for(self, name: str) -> Path | None:
        place = self._directory.joinpath(*name.split("."))
        file = place.with_name(f"{place.name}.py")
        if file.is_file():
            return file
        return place if place.is_dir() and any(place.rglob("*.py")) else None

    def _is_own(self, first: str) -> bool:
        """Whether `import first` means a module of this application. A directory that is no package gives way to all others, as it does in Python."""
        place = self.find(first)
        if place is None or not place.is_dir() or (place / "__init__.py").is_file():
            return place is not None
        known = self._directories.get(first)
        if known is None:
            known = self._directories[first] = importlib.util.find_spec(first) is None
        return known

    def spec_of(self, name: str, place: Path) -> ModuleSpec | None:
        if place.is_file():
            return importlib.util.spec_from_file_location(name, place, loader=_Loader(name, str(place), self._names(), self._interface))
        initial = place / "__init__.py"
        if initial.is_file():
            loader = _Loader(name, str(initial), self._names(), self._interface)
            return importlib.util.spec_from_file_location(name, initial, loader=loader, submodule_search_locations=[str(place)])
        spec = ModuleSpec(name, None, is_package=True)
        spec.submodule_search_locations = [str(place)]
        return spec

    def _names(self) -> dict[str, Any]:
        return {**self._globals, "__builtins__": {**vars(builtins), "__import__": self._import}}

    def _import(
        self, name: str, globals: Any = None, locals: Any = None, fromlist: Sequence[str] | None = (), level: int = 0
    ) -> ModuleType:
        """`import helpers` in a module of the application is its own `helpers.py`, if it has one. `svc` is what is documented of it."""
        first = name.partition(".")[0]
        if name == "svc" and not level:
            return self._svc
        if level or not self._is_own(first):
            return builtins.__import__(name, globals, locals, fromlist or (), level)
        module = importlib.import_module(f"{self.package}.{name}")
        if not fromlist:
            return sys.modules[f"{self.package}.{first}"]
        members = (getattr(module, "__all__", ()) if member == "*" else (member,) for member in fromlist)
        for member in chain.from_iterable(members):
            if isinstance(member, str) and not hasattr(module, member) and self.find(f"{name}.{member}") is not None:
                importlib.import_module(f"{self.package}.{name}.{member}")
        return module

    def _where(self, error: BaseException) -> str:
        """The error with the last place in the application's own code."""
        if isinstance(error, SyntaxError) and error.filename:
            return f"{self._shown(error.filename)}:{error.lineno}: {type(error).__name__}: {error.msg}"
        frames = [frame for frame in traceback.extract_tb(error.__traceback__) if frame.filename.startswith(f"{self._directory}/")]
        place = f"{self._shown(frames[-1].filename)}:{frames[-1].lineno}: " if frames else ""
        return f"{place}{type(error).__name__}: {error}"

    def traceback_of(self, error: BaseException) -> str:
        """The traceback from the application's own first line on."""
        if isinstance(error, SyntaxError):
            return "".join(traceback.format_exception_only(error))
        found: TracebackType | None = error.__traceback__
        while found is not None and not found.tb_frame.f_code.co_filename.startswith(f"{self._directory}/"):
            found = found.tb_next
        shown = traceback.TracebackException(type(error), error, found or error.__traceback__)
        own = [frame for frame in shown.stack if not frame.filename.startswith("<frozen importlib") and frame.filename != __file__]
        shown.stack = traceback.StackSummary.from_list(own)  # without the steps of one import inside another
        return "".join(shown.format())

    def _shown(self, filename: str) -> str:
        path = Path(filename)
        return path.relative_to(self._directory).as_posix() if path.is_relative_to(self._directory) else filename


class _InterfaceModule(ModuleType):
    """The module `svc` as an application sees it. In the real one, packages of the same names are in the way of `server`, `auth`, `sql`, `config` and
    `resources`."""

    def __init__(self, interface: Interface, package: str) -> None:
        super().__init__("svc", svc.__doc__)
        self.__all__ = svc.__all__
        self._interface = interface
        self._package = package

    def __getattr__(self, name: str) -> Any:
        if name == "transaction":
            return self._interface.transaction
        if name in svc.OF_INSTANCE:
            return self._interface.global_of(name, self._package)
        return getattr(svc, name)

    def __dir__(self) -> list[str]:
        return dir(svc)


class _Loader(SourceFileLoader):
    """Puts the globals of the interface into a module before it runs, and lets its classes know whose they are."""

    def __init__(self, name: str, path: str, names: Mapping[str, Any], interface: Interface) -> None:
        super().__init__(name, path)
        self._names = names
        self._interface = interface

    def get_code(self, fullname: str) -> CodeType | None:
        return code_of(self.path, lambda: self._read_code(fullname))

    def _read_code(self, fullname: str) -> CodeType | None:
        write_compiled(self.path)
        return super().get_code(fullname)

    def _has_module(self, module: ModuleType, name: str) -> bool:
        """Whether it is a package with a module of this name, which `from package import name` means."""
        if not hasattr(module, "__path__"):
            return False
        place = Path(self.path).with_name(name)
        return place.is_dir() or place.with_suffix(".py").is_file()

    def exec_module(self, module: ModuleType) -> None:
        for name, value in self._names.items():
            if not self._has_module(module, name):
                module.__dict__.setdefault(name, value)
        super().exec_module(module)
        for value in vars(module).values():
            if isinstance(value, type) and issubclass(value, Resource) and value.__module__ == module.__name__ and value._interface is None:
                value._interface = self._interface


class _ModuleFinder(importlib.abc.MetaPathFinder):
    """Finds the modules of one application under the name of its package."""

    def __init__(self, modules: ApplicationModules) -> None:
        self._modules = modules

    def find_spec(self, name: str, path: Sequence[str] | None, target: ModuleType | None = None) -> ModuleSpec | None:
        package = self._modules.package
        if not name.startswith(f"{package}."):
            return None
        place = self._modules.find(name.removeprefix(f"{package}."))
        return None if place is None else self._modules.spec_of(name, place)


def exports(module: ModuleType, directory: str) -> Iterator[ExportedResource]:
    """The resources of a module (spec: applications §10). `directory`: of its address, "" or "shop/"."""
    named = getattr(module, "__all__", None)
    for name, value in list(vars(module).items()):
        if isinstance(value, type) and issubclass(value, Resource):
            if name == "default":
                yield ExportedResource(directory.rstrip("/"), value)
                continue
            is_own = value.__module__ == module.__name__ and value.__name__ == name and not name.startswith("_")
            if (name in named) if named is not None else is_own:
                path = value.__dict__.get("path")
                yield ExportedResource(_address(directory, path) if isinstance(path, str) else directory + name, value)
        elif isinstance(value, dict) and not name.startswith("_") and (named is None or name in named):
            yield from _of_mapping(value, f"{directory}{name}")


def _of_mapping(mapping: Mapping[Any, Any], address: str) -> Iterator[ExportedResource]:
    """Any mapping of a module is looked at, also data, and one that is no tree: so there are limits."""
    waiting: deque[tuple[Mapping[Any, Any], str, tuple[int, ...]]] = deque([(mapping, address, ())])
    for _ in range(MOST_MAPPINGS):
        if not waiting:
            return
        members, place, outer = waiting.popleft()
        for name, value in members.items():
            if isinstance(name, str) and isinstance(value, type) and issubclass(value, Resource):
                yield ExportedResource(f"{place}/{name}", value)
            elif isinstance(name, str) and isinstance(value, dict) and id(value) not in outer and len(waiting) < MOST_MAPPINGS:
                waiting.append((value, f"{place}/{name}", (*outer, id(members))))


def _address(directory: str, path: str) -> str:
    return path.strip("/") if path.startswith("/") else directory + path.strip("/")


def registration_of(exported: ExportedResource, export_types: Mapping[str, bool], owner: object, **options: Any) -> Registration:
    """What `Resources.change` adds for a resource. Raises ValueError for an address that cannot be matched."""
    return make_registration(exported.address, serve(exported.resource, exported.address, **options), export_types, owner=owner)
