"""The boot file `~/.svc/svc_boot_properties.file`: the roots that an OS user has installed or started (spec: configuration §1).

    settings_path=/home/ann/svc/svc-config.yaml
    settings_path=/srv/shop/svc-config.yaml
    operations_socket=/tmp/svc-1000/0123456789abcdef.sock
    install_user=ann

`operations_socket` belongs to the root above it, whose configured path is too long for a socket. No command takes its root from this file: it is
for lists of them, and for finding that socket.
"""

from __future__ import annotations

import getpass
import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from svc.config.document import write_private
from svc.errors import ConfigError
from svc.root.location import root_of

BOOT_FILE = "svc_boot_properties.file"
_SETTINGS_LINE, _SOCKET_LINE, _USER_LINE = "settings_path", "operations_socket", "install_user"


@dataclass(frozen=True)
class KnownRoot:
    """`file`: its configuration. `socket`: the path of its operations socket, None if that is the configured one."""

    file: Path
    socket: Path | None = None

    @property
    def root(self) -> Path:
        try:
            return root_of(self.file)
        except ConfigError:  # a file that cannot be read as a configuration now
            return self.file.parent


def boot_file(environ: Mapping[str, str]) -> Path:
    """In `/` for a user without a home directory, who can hardly write there."""
    home = environ.get("HOME")
    try:
        return (Path(home) if home else Path.home()) / ".svc" / BOOT_FILE
    except RuntimeError:
        return Path("/.svc") / BOOT_FILE


def known_roots(environ: Mapping[str, str]) -> list[KnownRoot]:
    """In the order in which they were first used; empty if there is no such file. Some may be gone."""
    found: list[KnownRoot] = []
    try:
        lines = boot_file(environ).read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError):
        return []
    for line in lines:
        name, _, value = (part.strip() for part in line.partition("="))
        if name == _SETTINGS_LINE and os.path.isabs(value):
            found.append(KnownRoot(Path(value)))
        elif name == _SOCKET_LINE and found and value:
            found[-1] = replace(found[-1], socket=Path(value))
    return found


def remember_root(environ: Mapping[str, str], file: Path, socket: Path | None = None) -> None:
    """Note that a root is used, and forget those that are gone. A home that cannot be written is not an error."""
    known = {each.file: each for each in known_roots(environ)}
    known[file] = KnownRoot(file, socket)
    lines = []
    for each in known.values():
        if each.file == file or not _is_gone(each.file):
            lines.append(f"{_SETTINGS_LINE}={each.file}\n")
            lines += [f"{_SOCKET_LINE}={each.socket}\n"] if each.socket is not None else []
    text = "".join([*lines, f"{_USER_LINE}={_user_name()}\n"])
    target = boot_file(environ)
    try:
        if not target.exists() or target.read_text(encoding="utf-8", errors="replace") != text:
            target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            write_private(target, text.encode())
    except OSError:
        pass


def _is_gone(file: Path) -> bool:
    """False also for a file that cannot be looked at now."""
    try:
        file.lstat()
    except (FileNotFoundError, NotADirectoryError):
        return True
    except OSError:
        return False
    return False


def _user_name() -> str:
    """The name of this user; its number if it has none, as in a container."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return str(os.getuid())


def recorded_socket(environ: Mapping[str, str], usual: Path) -> Path:
    """The path of the operations socket: `usual`, or the one that the server chose in another directory under the same name, because the temporary
    area of its shell is another one."""
    if usual.suffix != ".sock":
        return usual
    return next((each.socket for each in known_roots(environ) if each.socket is not None and each.socket.name == usual.name), usual)
