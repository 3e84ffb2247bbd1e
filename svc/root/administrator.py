"""The first super user: configured name and password, and the file of a generated password (spec: configuration §4.1)."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from svc.config.document import write_private
from svc.root.location import first_value

PASSWORD_FILE = "initial-admin-password"


class Terminal(Protocol):
    """The stream for messages that must not be logged: standard error, or the pipe to the command that started this process."""

    def write(self, text: str, /) -> object: ...

    def flush(self) -> object: ...


@dataclass(frozen=True)
class Administrator:
    """Configured name and password of the first super user; None: not given. Never printed, logged or written to the configuration."""

    username: str | None
    password: str | None

    def __repr__(self) -> str:
        return f"Administrator({self.username!r})"


def take_administrator(environ: Any, options: dict[str, str]) -> Administrator:
    """Read name and password, and remove the password from both, so that no application can read it."""
    username = first_value(options, environ, "svc_admin_username") or None
    password = first_value(options, environ, "svc_admin_password") or None
    for source in (environ, options):
        for key in [key for key in source if key.lower() == "svc_admin_password"]:
            del source[key]
    if password is not None and not password.strip():
        password = None
    return Administrator(username, password)


def keep_initial_password(root: Path, username: str, password: str, terminal: Terminal) -> None:
    """Print the generated password once, on the terminal, and keep it in a file for the owner only (spec: configuration §4.1)."""
    path = root / PASSWORD_FILE
    if not path.exists() or path.read_text(encoding="utf-8") != f"{password}\n":
        write_private(path, f"{password}\n".encode())
    print(
        f"\n  A first super user was created.\n\n    user      {username}\n    password  {password}\n\n"
        f"  The password is also in {path}\n  and is not shown again. Change it, then the file is removed.\n",
        file=terminal,
        flush=True,
    )


def remove_initial_password(root: Path) -> None:
    """Remove the file of the generated password: the password was changed, or the user dropped."""
    (root / PASSWORD_FILE).unlink(missing_ok=True)


def initial_password_notice(root: Path) -> str | None:
    """The line each start logs as long as the initial password has not been changed."""
    path = root / PASSWORD_FILE
    return f"The initial password of the first super user has not been changed yet; it is in {path}" if path.exists() else None
