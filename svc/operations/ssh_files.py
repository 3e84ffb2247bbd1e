"""SSH keys for fetching packages, as files below `<rootPath>/ssh` (spec: operations §7).

    <name>.key    a private key
    keys.json     name -> host, hostname
    config        made from it; `ssh -F` reads this one
    known_hosts   keys of hosts, as ssh itself writes them

All of them for their owner only. Everything here blocks; of several calls at once one waits for the other.
"""

from __future__ import annotations

import json
import threading
from pathlib import Path
from typing import Any

from svc.config.document import write_private
from svc.errors import ClientError, NotFound, ServerError

_CHANGING = threading.Lock()
_HEADER = "# Made by svc from keys.json; changes are lost. Keys are managed by add_ssh_key, update_ssh_key and delete_ssh_key.\n"


class SshFiles:
    """The files of one root directory."""

    def __init__(self, root: Path) -> None:
        self.directory = root / "ssh"

    def names(self) -> list[dict[str, Any]]:
        return [{"name": name} for name in sorted(self._entries())]

    def hosts(self) -> frozenset[str]:
        """The names that stand for hosts."""
        return frozenset(str(entry.get("host")) for entry in self._entries().values())

    def get(self, name: str) -> dict[str, Any]:
        """Without the key itself. Raises NotFound."""
        entry = self._entries().get(name)
        if entry is None:
            raise NotFound(f"SSH key '{name}' does not exist")
        return {"name": name, "host": entry.get("host"), "hostname": entry.get("hostname")}

    def add(self, name: str, key: str, host: str, hostname: str, known_hosts: str | None) -> None:
        with _CHANGING:
            entries = self._entries()
            if name in entries:
                raise ClientError(f"SSH key '{name}' already exists, use update_ssh_key", 409)
            self._check_host(entries, name, host)
            entries[name] = {"host": host, "hostname": hostname}
            self._write(f"{name}.key", key)
            self._write_entries(entries)
            self._add_known_hosts(known_hosts)

    def update(self, name: str, key: str | None, host: str | None, hostname: str | None, known_hosts: str | None) -> None:
        """What is None stays."""
        with _CHANGING:
            entries = self._entries()
            entry = entries.get(name)
            if entry is None:
                raise NotFound(f"SSH key '{name}' does not exist, use add_ssh_key")
            if host is not None:
                self._check_host(entries, name, host)
                entry["host"] = host
            if hostname is not None:
                entry["hostname"] = hostname
            if key is not None:
                self._write(f"{name}.key", key)
            self._write_entries(entries)
            self._add_known_hosts(known_hosts)

    def delete(self, name: str) -> None:
        with _CHANGING:
            entries = self._entries()
            if entries.pop(name, None) is None:
                raise NotFound(f"SSH key '{name}' does not exist")
            self._write_entries(entries)
            (self.directory / f"{name}.key").unlink(missing_ok=True)

    def known_hosts(self) -> str:
        try:
            return (self.directory / "known_hosts").read_text("utf-8", "replace")
        except FileNotFoundError:
            return ""

    def set_known_hosts(self, text: str) -> None:
        with _CHANGING:
            self._write("known_hosts", _lines(text))

    # --- files -----------------------------------------------------------------------------------------------------------------------

    def _entries(self) -> dict[str, dict[str, Any]]:
        try:
            found = json.loads((self.directory / "keys.json").read_bytes())
        except FileNotFoundError:
            return {}
        except ValueError as error:
            raise ServerError("The list of SSH keys, ssh/keys.json, is damaged") from error
        return {str(name): entry for name, entry in found.items() if isinstance(entry, dict)} if isinstance(found, dict) else {}

    @staticmethod
    def _check_host(entries: dict[str, dict[str, Any]], name: str, host: str) -> None:
        """ssh takes the first entry of a host, so a second one would never be used."""
        other = next((known for known, entry in entries.items() if known != name and entry.get("host") == host), None)
        if other is not None:
            raise ClientError(f"The host '{host}' has the SSH key '{other}' already", 409)

    def _write(self, name: str, text: str) -> None:
        self.directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        write_private(self.directory / name, text.encode())

    def _write_entries(self, entries: dict[str, dict[str, Any]]) -> None:
        self._write("keys.json", json.dumps(entries, indent=1, sort_keys=True) + "\n")
        self._write("config", _HEADER + "".join(self._block(name, entry) for name, entry in sorted(entries.items())))

    def _block(self, name: str, entry: dict[str, Any]) -> str:
        return (
            f"\n# {name}\nHost {entry.get('host')}\n    HostName {entry.get('hostname')}\n    User git\n"
            f"    IdentityFile {_quoted(self.directory / f'{name}.key')}\n    IdentitiesOnly yes\n"
            f"    UserKnownHostsFile {_quoted(self.directory / 'known_hosts')}\n"
        )

    def _add_known_hosts(self, more: str | None) -> None:
        if more is None:
            return
        known = self.known_hosts()
        lines = known.splitlines()
        new = [line for line in more.splitlines() if line.strip() and line not in lines]
        if new:
            self._write("known_hosts", _lines(known) + "\n".join(dict.fromkeys(new)) + "\n")


def _lines(text: str) -> str:
    """A text that ends with the end of a line."""
    text = text.replace("\r\n", "\n")
    return text if not text or text.endswith("\n") else f"{text}\n"


def _quoted(path: Path) -> str:
    """A path in ssh's configuration; `%` begins a token there.

    >>> _quoted(Path("/srv/my svc/100%"))
    '"/srv/my svc/100%%"'
    """
    return '"' + str(path).replace("%", "%%").replace('"', '\\"') + '"'
