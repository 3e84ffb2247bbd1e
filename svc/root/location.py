"""Which root directory a command works on (spec: configuration §1)."""

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from svc.config.build import CONFIG_FILE
from svc.config.document import read_document
from svc.config.values import lookup
from svc.errors import ConfigError

LOCAL_ROOT = ".svc"
"""The root of a project, in its directory."""

DEFAULT_ROOT = "~/svc"


@dataclass(frozen=True)
class Installation:
    """A root directory. `file`: the configuration it runs with; `template`: one that an installation starts from; `installed`: the file exists.

    `chosen`: why this root and no other, for messages: `the default root`."""

    root: Path
    file: Path
    installed: bool
    template: Path | None = None
    chosen: str = field(default="", compare=False)


def find_installation(environ: Mapping[str, str], options: Mapping[str, str]) -> Installation:
    """The root of this call: `--ROOTPATH`, `ROOTPATH` in the environment, that of `SVC_CONFIG`, `./.svc` if it is installed, else `~/svc`.

    Names may be in any case. A root that holds a configuration file counts as installed. Raises ConfigError.
    """
    own_file = find_value(options, "svc_config") or find_value(environ, "svc_config")
    template = absolute(own_file) if own_file else None
    if template is not None and not template.is_file():
        raise ConfigError(f"SVC_CONFIG: the file {template} does not exist")
    root, chosen = _choose_root(environ, options, template)
    file = root / CONFIG_FILE
    installed = file.is_file()
    if installed and template is not None:
        return Installation(root, template, True, None, chosen)
    return Installation(root, file, installed, template, chosen)


def _choose_root(environ: Mapping[str, str], options: Mapping[str, str], own_file: Path | None) -> tuple[Path, str]:
    """The root, and why it is this one."""
    for name in ("rootpath", "operationsapi_root"):
        for source, text in ((options, f"named by --{name.upper()}"), (environ, f"named by the environment variable {name.upper()}")):
            if given := find_value(source, name):
                return absolute(given), text
    if own_file is not None and (own_file.name == CONFIG_FILE or stated_root(own_file)):
        return root_of(own_file), "named by SVC_CONFIG"
    if own_file is None and (Path(LOCAL_ROOT) / CONFIG_FILE).is_file():
        return absolute(LOCAL_ROOT), f"the {LOCAL_ROOT} of this directory"
    return absolute(DEFAULT_ROOT), "the default root"


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
    """Raises ConfigError for `~` if this user has no home directory."""
    try:
        return Path(os.path.abspath(Path(path).expanduser()))
    except RuntimeError:
        raise ConfigError(f"The path {path} has no meaning, because this user has no home directory; name a root with --ROOTPATH") from None


def find_value(source: Mapping[str, str], name: str) -> str:
    """The value of a variable or option whose name is `name` in any case; empty if there is none."""
    return next((value for key, value in source.items() if key.lower() == name and value), "")


def first_value(options: Mapping[str, str], environ: Mapping[str, str], *names: str) -> str:
    """The first of these names that an option or a variable has; options win. Empty if there is none."""
    return next((value for name in names for source in (options, environ) if (value := find_value(source, name))), "")
