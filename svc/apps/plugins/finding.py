"""Which module the `package` of an entry means (spec: plugins §2.1).

./words, words, words.py     a directory or a file of the application; loaded with its code
svc-badwords                 an installed package: imported once for all applications
badwords                     another application that is a plugin, of the service or beside this one; loaded with the code of the one that names it
"""

from __future__ import annotations

import importlib
import importlib.util
import re
import traceback
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

from svc.apps.calls import call
from svc.apps.config_file import read_config
from svc.apps.entry import EntryContext
from svc.apps.load_limit import LoadTimeout
from svc.apps.modules import ApplicationModules, ModuleFault
from svc.apps.plugins.module_functions import PluginFault

MODULE_ENTRIES = ("pluginModule", "extensionModule")

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]*")


@dataclass(frozen=True)
class FoundPlugin:
    """`modules`: of an application of its own, which end with what has loaded it."""

    module: ModuleType
    directory: Path
    modules: ApplicationModules | None = None

    def fault_of(self, error: BaseException) -> ModuleFault:
        """What its code has raised, with its place there."""
        return fault_of(error, self.directory)


def fault_of(error: BaseException, directory: Path) -> ModuleFault:
    """An error with the last place of code in a directory, and the traceback from its first line on."""
    text = str(error) if isinstance(error, LoadTimeout) else f"{type(error).__name__}: {error}"
    inside = f"{directory.resolve()}/"
    if isinstance(error, SyntaxError) and error.filename:
        where = error.filename.removeprefix(inside)
        return ModuleFault(f"{where}:{error.lineno}: {type(error).__name__}: {error.msg}", _lines(error))
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if frame.filename.startswith(inside)]
    if not frames and error.__cause__ is not None:
        frames = [frame for frame in traceback.extract_tb(error.__cause__.__traceback__) if frame.filename.startswith(inside)]
    place = f"{frames[-1].filename.removeprefix(inside)}:{frames[-1].lineno}: " if frames else ""
    return ModuleFault(place + text, _lines(error))


def _lines(error: BaseException) -> str:
    return "".join(traceback.format_exception(error))


async def find_plugin(context: EntryContext, package: Any, server: Any) -> FoundPlugin:
    """`server`: what the modules of another application see. Raises PluginFault, ModuleFault."""
    if not isinstance(package, str) or not package.strip():
        raise PluginFault(f"package is the name of a package, or a path below the application, not {package!r}")
    package = package.strip()
    directory = context.app.directory.resolve()
    path = _own_path(directory, package)
    is_name = _NAME.fullmatch(package) is not None and not package.endswith(".py")
    if path is not None and (not is_name or _is_plugin(path)):
        assert context.code is not None
        return FoundPlugin(context.code.load(_module_of(path)), directory)
    if not is_name:
        raise PluginFault(f"there is no '{package}' in the application")
    found = await _installed(context, package)
    if found is not None:
        return found
    other = context.runtime.directory_of(package) or _neighbour(context.app.directory, package)
    if other is not None and other.resolve() != directory:
        return _application(context, other, server)
    if path is not None:
        _module_of(path)
    raise PluginFault(
        f"there is no package '{package}': install it ('pip install {package}', or into .packages of the application),"
        " or give a path below the application, such as ./plugins/words"
    )


def _own_path(directory: Path, package: str) -> Path | None:
    """The file or directory of the application; None if it is none. Raises PluginFault for a path out of it."""
    if package.startswith("/") or ".." in package.split("/") or "\0" in package:
        raise PluginFault(f"package: '{package}' leads out of the application")
    path = directory / package
    if path == directory:
        return directory
    for candidate in (path, path.with_name(f"{path.name}.py")):
        if candidate.exists():
            if not candidate.resolve().is_relative_to(directory):
                raise PluginFault(f"package: '{package}' leads out of the application")
            return candidate
    if package.startswith(".") or package.endswith(".py"):
        raise PluginFault(f"there is no '{package}' in the application")
    return None


def _module_of(path: Path) -> Path:
    """The file of the plugin in a directory, which its config.yaml names; the directory, if it is a package of Python. Raises PluginFault."""
    if not path.is_dir():
        if path.suffix != ".py":
            raise PluginFault(f"'{path.name}' is no Python file")
        return path
    named = named_module(path)
    if named is not None:
        return named
    if (path / "__init__.py").is_file():
        return path
    raise PluginFault(f"the directory '{path.name}' has neither a config.yaml with pluginModule nor an __init__.py")


def _is_plugin(path: Path) -> bool:
    """Whether a file or directory whose name may also be that of a package is meant: a directory of data is not."""
    return not path.is_dir() or any((path / name).is_file() for name in ("config.yaml", "__init__.py"))


def named_module(directory: Path) -> Path | None:
    """The file that the config.yaml of a plugin's directory names; None if it names none. Raises PluginFault."""
    try:
        config = read_config(directory)
    except (OSError, ValueError) as error:
        raise PluginFault(f"{directory.name}/config.yaml: {error}") from None
    return module_file(directory, config)


def module_file(directory: Path, config: Mapping[str, Any]) -> Path | None:
    for key in MODULE_ENTRIES:
        value = config.get(key)
        if not value:
            continue
        if not isinstance(value, str) or value.startswith("/") or ".." in value.split("/") or "\0" in value:
            raise PluginFault(f"{key} is a path below the directory of the plugin, not {value!r}")
        file = directory / value
        if not file.is_file() or file.suffix != ".py":
            raise PluginFault(f"{key}: there is no Python file {value}")
        if not file.resolve().is_relative_to(directory.resolve()):
            raise PluginFault(f"{key}: {value} leads out of the directory of the plugin")
        return file
    return None


def _neighbour(directory: Path, package: str) -> Path | None:
    """A plugin in a directory beside that of the application, which may be the only one that is loaded (`svc dev shop`)."""
    path = directory.absolute().parent / package
    return path if (path / "config.yaml").is_file() and named_module(path) is not None else None


async def _installed(context: EntryContext, package: str) -> FoundPlugin | None:
    """An installed package, imported; None if there is none."""
    name = package.replace("-", "_")
    directory = Path("/")
    code, interface = context.code, context.runtime.interface
    assert code is not None and interface is not None
    interface.make_current()

    def load() -> tuple[ModuleType, Path] | None:
        nonlocal directory
        try:
            spec = importlib.util.find_spec(name)
        except ModuleNotFoundError as error:
            if error.name and (name == error.name or name.startswith(f"{error.name}.")):
                return None
            raise
        except ValueError:
            return None
        if spec is None:
            return None
        for location in spec.submodule_search_locations or ():
            directory = Path(location)
            named = named_module(directory) if (directory / "config.yaml").is_file() else None
            if named is not None:
                parts = named.relative_to(directory).with_suffix("").parts
                return importlib.import_module(".".join((name, *parts))), directory
        if spec.origin:
            directory = Path(spec.origin).parent
        return importlib.import_module(name), directory

    try:
        loaded = await call(code.loading, load)
    except PluginFault:
        raise
    except (Exception, LoadTimeout) as error:
        fault = fault_of(error, directory)
        raise ModuleFault(f"package '{package}': {fault}", fault.details) from error
    return None if loaded is None else FoundPlugin(*loaded)


def _application(context: EntryContext, directory: Path, server: Any) -> FoundPlugin:
    """Another application of the service."""
    interface = context.runtime.interface
    assert interface is not None and context.code is not None
    file = named_module(directory)
    if file is None:
        raise PluginFault(f"the application '{directory.name}' is no plugin: its config.yaml has no pluginModule")
    settings = context.code.settings
    modules = ApplicationModules(interface, directory.name, directory, read_config(directory), server=server, settings=settings)
    try:
        with context.code.loading():
            module = modules.load(file)
    except ModuleFault as fault:
        modules.forget()
        raise ModuleFault(f"{directory.name}/{fault}", fault.details) from fault
    return FoundPlugin(module, directory.resolve(), modules)
