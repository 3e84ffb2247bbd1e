"""The certificates that a port may show: those of the `tls` section, and those in `system.svc_certificate` (spec: configuration §2.5, operations §11)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from svc.config import TlsSection
from svc.store import Store
from svc.store.log.entries import LogEntry
from svc.store.system import CERTIFICATE_TABLE, SYSTEM
from svc.store.values.records import decode

Stamp = tuple[int, ...] | None


class Unusable(Exception):
    """Why a certificate cannot be shown, or an authority not be trusted: a sentence for the log."""


@dataclass(frozen=True, slots=True)
class Entry:
    """A certificate with its key. `certificate`: its file, or the PEM text of a stored one."""

    name: str  # as messages call it
    certificate: Path | str
    key: Path
    hosts: tuple[str, ...] = ()  # empty: those in the certificate
    ciphers: str | None = None

    @property
    def is_stored(self) -> bool:
        return isinstance(self.certificate, str)

    def stamp(self) -> tuple[Stamp, Stamp]:
        """A value that changes with its files."""
        return (stamp(self.certificate) if isinstance(self.certificate, Path) else None, stamp(self.key))

    def text(self) -> bytes:
        """The certificate and those between it and its authority, PEM. Raises Unusable."""
        if isinstance(self.certificate, str):
            return self.certificate.encode(errors="replace")
        return read(self.certificate, b"CERTIFICATE", "it")


def stamp(file: Path) -> Stamp:
    """None if there is no such file."""
    try:
        status = file.stat()
    except OSError:
        return None
    return (status.st_mtime_ns, status.st_size, status.st_ino, status.st_ctime_ns)


def read(file: Path, kind: bytes, name: str) -> bytes:
    """Read a PEM file that contains an object of this kind. Raises Unusable, which calls the file `name`."""
    try:
        data = file.read_bytes()
    except OSError as error:
        raise Unusable(f"{name} cannot be read: {error.strerror}") from None
    if kind + b"-----" not in data:
        raise Unusable(f"{name} is not in PEM format")
    return data


def of_section(entries: Iterable[TlsSection], purpose: str) -> list[Entry]:
    """The entries of a `tls` section for a purpose: `https`, `operations` or `mqtt`."""
    found = []
    for entry in entries:
        if entry.uses and purpose not in entry.uses:
            continue
        hosts = tuple(host for host in (entry.host, *(entry.hosts or ())) if host)
        found.append(Entry(f"certificate {entry.certificate}", entry.certificate, entry.private_key, hosts, entry.ciphers))
    return found


def authorities_of_section(entries: Iterable[TlsSection]) -> tuple[Path, ...]:
    return tuple(dict.fromkeys(entry.certificate_authority for entry in entries))


class StoredCertificates:
    """The certificates that operators have added. `changes` grows when some are added or removed in this process."""

    def __init__(self, store: Store, keys: Path) -> None:
        """`keys`: the directory of the key files."""
        self._store = store
        self._keys = keys
        self.changes = 0
        store.databases[SYSTEM].on_commit.append(self._committed)

    def _committed(self, database: object, entries: list[LogEntry]) -> None:
        if any(entry.table == CERTIFICATE_TABLE for entry in entries):
            self.changes += 1

    def _records(self) -> list[dict[str, Any]]:
        table = self._store.databases[SYSTEM].tables[CERTIFICATE_TABLE]
        return [decode(raw) for _, raw in table.scan(table.database.snapshot())]

    def entries(self, purpose: str) -> list[Entry]:
        """Those for a purpose; the one that was changed last comes last."""
        found = []
        for record in sorted(self._records(), key=lambda record: record.get("__updatedtime__") or 0):
            key, text = record.get("private_key_name"), record.get("certificate")
            if record.get("is_authority") or not key or not text or not _serves(record, purpose):
                continue
            hosts = tuple(host for host in record.get("hosts") or () if isinstance(host, str))
            found.append(Entry(f"certificate {record['name']}", text, self._keys / key, hosts, record.get("ciphers")))
        return found

    def authorities(self) -> tuple[str, ...]:
        """The trusted authorities of client certificates, as PEM."""
        return tuple(
            record["certificate"]
            for record in self._records()
            if record.get("certificate") and (record.get("is_authority") or "ca" in (record.get("uses") or ()))
        )


def _serves(record: dict[str, Any], purpose: str) -> bool:
    return not record.get("uses") or purpose in record["uses"]
