"""Which root directory a command works on, and the boot file that remembers it (spec: configuration §1).

`~/.svc/svc_boot_properties.file` remembers the configuration file of the last root of an OS user, and its socket if that has another path than
the configured one.
"""

import getpass
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from svc.config.build import CONFIG_FILE
from svc.config.document import read_document, write_private
from svc.config.values import lookup
from svc.errors import ConfigError

_SOCKET_LINE = "operations_socket"


@dataclass(frozen=True)
class Installation:
    """A root directory. `file`: the configuration it runs with; `template`: one that an installation starts from; `installed`: the file exists."""

    root: Path
    file: Path
    installed: bool
    template: Path | None = None


def find_installation(environ: Mapping[str, str], options: Mapping[str, str]) -> Installation:
    """The root of this call: `--ROOTPATH`, the environment, `SVC_CONFIG`, the boot file, else `~/svc` (spec: configuration §1).

    Names may be in any case. A root that holds a configuration file counts as installed.
    """
    given = (
        find_value(options, "rootpath")
        or find_value(environ, "rootpath")
        or find_value(options, "operationsapi_root")
        or find_value(environ, "operationsapi_root")
    )
    own_file = find_value(options, "svc_config") or find_value(environ, "svc_config")
    template = absolute(own_file) if own_file else None
    if template is not None and not template.is_file():
        raise ConfigError(f"SVC_CONFIG: the file {template} does not exist")
    if given:
        root = absolute(given)
    elif template is not None:
        root = root_of(template) if template.name == CONFIG_FILE or stated_root(template) else absolute("~/svc")
    else:
        booted = _booted_file(environ)
        if booted is not None:
            return Installation(root_of(booted), booted, True)
        root = absolute("~/svc")
    file = root / CONFIG_FILE
    installed = file.is_file()
    return Installation(root, template if template is not None and installed else file, installed, None if installed else template)


def stated_root(file: Path) -> Path | None:
    """The `rootPath` of a configuration file."""
    stated = lookup(read_document(file), ("rootPath",))
    return absolute(str(stated)) if stated else None


def root_of(file: Path) -> Path:
    """The root of a configuration file: its `rootPath`, else its directory. A file inside a root belongs to that root, whatever it states: then
    the root was copied or moved."""
    directory = absolute(str(file.parent))
    if file.name == CONFIG_FILE and (directory / "database").is_dir():
        return directory
    return stated_root(file) or directory


def absolute(path: str) -> Path:
    return Path(os.path.abspath(Path(path).expanduser()))


def find_value(source: Mapping[str, str], name: str) -> str:
    """The value of a variable or option whose name is `name` in any case; empty if there is none."""
    return next((value for key, value in source.items() if key.lower() == name and value), "")


# the boot file


def boot_file(environ: Mapping[str, str]) -> Path:
    home = environ.get("HOME")
    return (Path(home) if home else Path.home()) / ".svc" / "svc_boot_properties.file"


def read_boot_file(environ: Mapping[str, str]) -> dict[str, str]:
    """Its `name=value` lines; empty if there is none."""
    try:
        lines = boot_file(environ).read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError):
        return {}
    return {name.strip(): value.strip() for name, separator, value in (line.partition("=") for line in lines) if separator}


def _booted_file(environ: Mapping[str, str]) -> Path | None:
    stated = read_boot_file(environ).get("settings_path")
    file = Path(stated) if stated else None
    return file if file is not None and file.is_file() else None


def write_boot_file(environ: Mapping[str, str], file: Path) -> None:
    """Remember the configuration file of this OS user. A home that cannot be written is not an error: the root can be given each time."""
    _write_boot_lines(environ, {"settings_path": str(file), "install_user": getpass.getuser()})


def record_socket(environ: Mapping[str, str], configured: Path | None, used: Path | None) -> None:
    """Note in the boot file where the operations socket is, if its path was too long: the temporary area of another shell may be another one."""
    lines = read_boot_file(environ)
    if used is not None and used != configured and lines.get(_SOCKET_LINE) != str(used):
        _write_boot_lines(environ, {**lines, _SOCKET_LINE: str(used)})


def recorded_socket(environ: Mapping[str, str], usual: Path) -> Path:
    """The path of the operations socket: `usual`, or the one in the boot file if the server chose another directory for the same name."""
    stated = read_boot_file(environ).get(_SOCKET_LINE)
    return Path(stated) if stated and Path(stated).name == usual.name and usual.suffix == ".sock" else usual


def _write_boot_lines(environ: Mapping[str, str], lines: Mapping[str, str]) -> None:
    target = boot_file(environ)
    text = "".join(f"{name}={value}\n" for name, value in lines.items())
    try:
        if not target.exists() or target.read_text(encoding="utf-8") != text:
            target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            write_private(target, text.encode())
    except OSError:
        pass


def first_value(options: Mapping[str, str], environ: Mapping[str, str], *names: str) -> str:
    """The first of these names that an option or a variable has; options win. Empty if there is none."""
    return next((value for name in names for source in (options, environ) if (value := find_value(source, name))), "")
