"""`ServerContexts`: the TLS contexts of a port, by server name (spec: http §14, configuration §2.5).

A context per certificate. A handshake begins with one that has none, whose keys of session tickets count (`ticket_keys`), and takes that of the host that the
client names (SNI):

1. the name itself, then `*.` and the name without its first label; a stored certificate before one of the section, of two stored ones the newer;
2. no match, or no name (clients that use an address): the first entry of the section, or the stored certificate for the same host.

Files are polled every POLL_SECONDS, records when they change. Changed ones are loaded; open connections are not affected. A new file that cannot
be used leaves the old context in place and is logged once. As certificate and key are two files, they do not fit for a short time: that is logged only
if the next poll still finds it.

All contexts of a port trust the same authorities for client certificates. A session may be resumed under another host name, so a client would otherwise
get in everywhere with the certificate of one host's authority. When these authorities change, no session from before is resumed.
"""

from __future__ import annotations

import ssl
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Any

from svc.clock import Clock
from svc.logs import Logger
from svc.tls.entries import Entry, StoredCertificates, Unusable, read, stamp
from svc.tls.mtls import Mtls
from svc.tls.peer import PeerCertificate
from svc.tls.ticket_keys import take_context

POLL_SECONDS = 3.0  # polling interval of the files: new ones are in use soon, and a stat costs next to nothing

_REASONS = {
    "KEY_VALUES_MISMATCH": "the key {key} does not belong to it",
    "KEY_TYPE_MISMATCH": "the key {key} does not belong to it",
    "EE_KEY_TOO_SMALL": "its key is too short to be safe",
    "CA_KEY_TOO_SMALL": "the key of its authority is too short to be safe",
    "CA_MD_TOO_WEAK": "its signature is of a kind that is not safe",
}


@dataclass(slots=True)
class _MadeContext:
    """A context, perhaps None, and what it was made from. `is_reported`: whether a failure has been logged."""

    stamps: Any
    context: ssl.SSLContext | None
    is_reported: bool = True


class ServerContexts:
    """The TLS contexts of one port."""

    def __init__(
        self,
        what: str,
        entries: Sequence[Entry],
        *,
        log: Logger,
        clock: Clock,
        purpose: str = "https",
        stored: StoredCertificates | None = None,
        authorities: Sequence[Path] = (),
        mtls: Mtls | None = None,
    ) -> None:
        """`what`: the setting that names the port, for messages. `authorities`: files, of which those that exist count, at least one with `mtls`."""
        self._what = what
        self._entries = tuple(entries)
        self._log = log
        self._now = clock.monotonic
        self._purpose = purpose
        self._stored = stored
        self._authority_files = tuple(authorities)
        self.mtls = mtls
        self.http2 = True
        """Whether clients may choose HTTP/2; to be set before `open`."""
        self._made: dict[Entry, _MadeContext] = {}
        self._authorities: tuple[Any, str] | None = None  # what they were read from, PEM
        self._reported_authorities: dict[Path, str] = {}
        self._reported = ""
        self._first: ssl.SSLContext | None = None  # with which handshakes begin
        self._first_trusts = ""
        self._default: ssl.SSLContext | None = None
        self._names: dict[str, ssl.SSLContext] = {}
        self._changes = 0  # of `stored`, as of the last poll
        self._next_poll = 0.0

    # --- for handshakes ------------------------------------------------------------------------------------------------------------

    @property
    def context(self) -> ssl.SSLContext:
        """For a handshake that begins now. Only after `open`."""
        if self._stored is not None and self._stored.changes != self._changes:
            self._load()
        assert self._first is not None
        return self._first

    def _choose(self, session: ssl.SSLObject, name: str | None, initial: ssl.SSLContext) -> None:
        context = self._default if name is None else self.find(name) or self._default
        assert context is not None
        session.context = context

    def find(self, name: str) -> ssl.SSLContext | None:
        """The context for a host name, None if none is for it in particular."""
        name = name.lower().rstrip(".")
        found = self._names.get(name)
        if found is None:
            first, _, parent = name.partition(".")
            found = self._names.get(f"*.{parent}") if first and parent else None
        return found

    def peer_certificate(self, session: ssl.SSLObject) -> PeerCertificate | None:
        """The client's certificate, if one was requested. It has been verified in the handshake."""
        if self.mtls is None:
            return None
        return PeerCertificate.of(session, with_chain=self.mtls.revocation is not None)

    # --- loading -------------------------------------------------------------------------------------------------------------------

    def open(self) -> bool:
        """Load everything. False, and one line in the log, if nothing can be used."""
        faults = self._load(is_first=True)
        if self._default is None:
            reasons = "; ".join(faults) or "there is no certificate for it"
            self._log.warn(f"{self._what} is not opened: {reasons}")
            return False
        for fault in faults:
            self._log.warn(f"{self._what}: {fault}")
        count = sum(made.context is not None for made in self._made.values())
        self._log.info(f"{self._what} has {count} certificate{'s' if count > 1 else ''}")
        return True

    def refresh(self) -> None:
        """Load changed files and records, once per POLL_SECONDS. Called about once a second."""
        now = self._now()
        if self._default is not None and now >= self._next_poll:
            self._next_poll = now + POLL_SECONDS
            self._load()

    def _load(self, *, is_first: bool = False) -> list[str]:
        """Bring the contexts up to date. Returns the faults; those that are found later than at the first time are logged here."""
        stored = self._stored
        entries = self._entries
        if stored is not None:
            self._changes = stored.changes
            entries += tuple(stored.entries(self._purpose))
        faults: list[str] = []
        try:
            trusted = self._trusted(faults)
        except Unusable as error:
            if not is_first and str(error) != self._reported:
                self._reported = str(error)
                self._log.warn(f"{self._what}: {error}; what was loaded before stays in use")
            return [str(error)]
        if self._first is None or self._first_trusts != trusted:
            self._first = self._begin(trusted)
            self._first_trusts = trusted
        made: dict[Entry, _MadeContext] = {}
        for entry in entries:
            made[entry] = self._make_anew(entry, trusted, self._made.get(entry), is_first, faults)
        changed = {entry: each.context for entry, each in made.items()} != {entry: each.context for entry, each in self._made.items()}
        self._made = made
        if changed:
            self._arrange(entries)
            if not is_first and self._default is not None:
                self._log.info(f"{self._what}: certificates are loaded again")
        if not is_first:
            for fault in faults:
                self._log.warn(f"{self._what}: {fault}")
        return faults

    def _begin(self, trusted: str) -> ssl.SSLContext:
        context = take_context(self._purpose) if self.mtls is None else ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._set_rules(context, trusted)
        context.sni_callback = self._choose
        return context

    def _set_rules(self, context: ssl.SSLContext, trusted: str) -> None:
        """What is the same for all hosts."""
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.options |= ssl.OP_NO_RENEGOTIATION
        context.set_alpn_protocols(["h2", "http/1.1"] if self.http2 else ["http/1.1"])
        if self.mtls is not None:
            context.verify_mode = ssl.CERT_REQUIRED if self.mtls.required else ssl.CERT_OPTIONAL
            context.load_verify_locations(cadata=trusted)

    def _make_anew(self, entry: Entry, trusted: str, before: _MadeContext | None, is_first: bool, faults: list[str]) -> _MadeContext:
        stamps = (entry.stamp(), trusted)
        if before is not None and before.stamps == stamps and before.is_reported:
            return before
        try:
            return _MadeContext(stamps, self._make(entry, trusted))
        except Unusable as error:
            fault = f"{entry.name}: {error}"
        kept = None if before is None else before.context
        is_reported = is_first or (
            before is not None and before.stamps == stamps
        )  # else a file of the pair may be about to follow the other
        if is_reported:
            faults.append(fault if kept is None else f"{fault}; the one before stays in use")
        return _MadeContext(stamps, kept, is_reported)

    def _make(self, entry: Entry, trusted: str) -> ssl.SSLContext:
        """Raises Unusable."""
        text = entry.text()
        if b"ENCRYPTED" in read(entry.key, b"PRIVATE KEY", f"the key {entry.key}"):
            raise Unusable(f"the key {entry.key} has a pass phrase, which cannot be typed at a start")
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._set_rules(context, trusted)
        if entry.ciphers:
            try:
                context.set_ciphers(entry.ciphers)
            except (ssl.SSLError, ValueError):
                raise Unusable(f"none of the ciphers '{entry.ciphers}' is known") from None
        try:
            if isinstance(entry.certificate, Path):
                context.load_cert_chain(entry.certificate, entry.key, _no_pass_phrase)
            else:
                with NamedTemporaryFile(prefix="svc-", suffix=".pem") as file:  # `ssl` reads nothing but files
                    file.write(text)
                    file.flush()
                    context.load_cert_chain(file.name, entry.key, _no_pass_phrase)
        except ssl.SSLError as error:
            reason = _REASONS.get(error.reason or "", "it or the key {key} cannot be understood")
            raise Unusable(reason.format(key=entry.key)) from None
        except (OSError, ValueError) as error:
            raise Unusable(f"it cannot be loaded: {error}") from None
        return context

    def _trusted(self, faults: list[str]) -> str:
        """The authorities that client certificates may be of, PEM; "" if none are asked for. Raises Unusable if there are none."""
        if self.mtls is None:
            return ""
        stored = self._stored.authorities() if self._stored is not None else ()
        stamps: tuple[Any, ...] = (tuple(stamp(file) for file in self._authority_files), stored)
        if self._authorities is not None and self._authorities[0] == stamps:
            return self._authorities[1]
        certificates = []
        reasons = []
        for file in self._authority_files:
            try:
                certificates.append(_authority(read(file, b"CERTIFICATE", f"the authority {file}"), f"the authority {file}"))
                self._reported_authorities.pop(file, None)
            except Unusable as error:
                reasons.append(str(error))
                if self._reported_authorities.get(file) != str(error):
                    self._reported_authorities[file] = str(error)
                    faults.append(str(error))
        for text in stored:
            try:
                certificates.append(_authority(text.encode(errors="replace"), ""))
            except Unusable:
                pass  # it was checked when it was added
        if not certificates:
            raise Unusable(f"mtls needs an authority that client certificates are of: {'; '.join(reasons) or 'tls.certificateAuthority'}")
        trusted = "\n".join(certificates)
        self._authorities = (stamps, trusted)
        return trusted

    def _arrange(self, entries: Sequence[Entry]) -> None:
        """Which context is the default, and which is for what name."""
        usable = [(entry, context) for entry in entries if (context := self._made[entry].context) is not None]
        if not usable:
            return  # what was there stays
        names: dict[str, ssl.SSLContext] = {}
        first_entry, default = usable[0]
        if len(usable) > 1:  # else the names are not needed, and reading them takes some time
            for entry, context in reversed([each for each in usable if not each[0].is_stored]):
                names.update(dict.fromkeys(_hosts(entry), context))
            for entry, context in usable:
                if entry.is_stored:
                    names.update(dict.fromkeys(_hosts(entry), context))
            hosts = _hosts(first_entry)
            default = names.get(hosts[0], default) if hosts else default
        self._names = names
        self._default = default


def _no_pass_phrase() -> str:
    """Asked where OpenSSL would ask the terminal."""
    return ""


def _authority(text: bytes, name: str) -> str:
    try:
        decoded = text.decode("ascii", "ignore")
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_verify_locations(cadata=decoded)
    except (ssl.SSLError, ValueError):
        raise Unusable(f"{name} cannot be understood") from None
    return decoded


def _hosts(entry: Entry) -> list[str]:
    """Lower-case names; empty if the certificate has none."""
    if entry.hosts:
        return [host.lower().rstrip(".") for host in entry.hosts]
    from svc.errors import ClientError
    from svc.tls.certificates import hosts_of, read_certificate  # 60 ms, and only several certificates need it

    try:
        return [host.lower().rstrip(".") for host in hosts_of(read_certificate(entry.text(), entry.name))]
    except (ClientError, Unusable):
        return []
