"""Which certificate a client is shown, and what happens when files and records change. Handshakes in memory, files in a directory of the test."""

from __future__ import annotations

import os
import shutil
import ssl
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import BestAvailableEncryption, Encoding, PrivateFormat

from svc.clock import FakeClock
from svc.tls.contexts import POLL_SECONDS, ServerContexts
from svc.tls.entries import Entry
from svc.tls.mtls import Mtls
from tests.support.certificates import Authority, Pair, authority, client_context

VERSIONS = (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3)


class FakeLog:
    def __init__(self) -> None:
        self.warnings: list[str] = []

    def warn(self, *messages: object) -> None:
        self.warnings.append(" ".join(map(str, messages)))

    def info(self, *messages: object) -> None:
        pass


class FakeStored:
    """In place of the system database."""

    def __init__(self) -> None:
        self.changes = 0
        self.of_servers: list[Entry] = []
        self.of_authorities: tuple[str, ...] = ()

    def add(self, pair: Pair, hosts: tuple[str, ...] = ()) -> None:
        self.of_servers.append(Entry("certificate x", pair.pem.decode(), pair.key_file, hosts))
        self.changes += 1

    def entries(self, purpose: str) -> list[Entry]:
        return list(self.of_servers)

    def authorities(self) -> tuple[str, ...]:
        return self.of_authorities


class World:
    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.log, self.clock, self.stored = FakeLog(), FakeClock(), FakeStored()
        self.contexts: ServerContexts

    def make(
        self, common_name: str, hosts: tuple[str, ...] = (), *, file: str = "", ciphers: str | None = None, own: tuple[str, ...] = ()
    ) -> Entry:
        """A certificate in files of this test."""
        pair = authority().make(common_name, hosts)
        return self.put(pair, file or common_name, ciphers=ciphers, own=own)

    def put(self, pair: Pair, file: str, *, ciphers: str | None = None, own: tuple[str, ...] = ()) -> Entry:
        certificate, key = self.directory / f"{file}.pem", self.directory / f"{file}.key"
        for source, target in ((pair.file, certificate), (pair.key_file, key)):
            shutil.copy(source, target)
            os.utime(target, ns=(self._time(), self._time()))
        return Entry(f"certificate {file}", certificate, key, own, ciphers)

    _times = 1_700_000_000_000_000_000

    def _time(self) -> int:
        """Another one each time, however coarse the clock of the file system."""
        World._times += 1_000_000
        return World._times

    def open(self, entries: Sequence[Entry], http2: bool = True, **options: Any) -> bool:
        self.contexts = ServerContexts("http.securePort 9927", entries, log=self.log, clock=self.clock, stored=self.stored, **options)  # type: ignore[arg-type]
        self.contexts.http2 = http2
        return self.contexts.open()

    def refresh(self) -> None:
        self.clock.advance(POLL_SECONDS)
        self.contexts.refresh()

    def shown(self, host: str | None, **options: Any) -> str:
        """The common name of the certificate that a client sees who asks for this host."""
        client, _ = self.shake_hands(host, **options)
        names = [value for part in client.getpeercert()["subject"] for _, value in part]  # type: ignore[index]
        return names[0]

    def shake_hands(
        self,
        host: str | None,
        version: ssl.TLSVersion | None = None,
        session: ssl.SSLSession | None = None,
        context: ssl.SSLContext | None = None,
        **options: Any,
    ) -> tuple[ssl.SSLObject, ssl.SSLObject]:
        """Both ends. Raises ssl.SSLError if they do not agree."""
        if context is None:
            context = client_context(version, **options)
        context.check_hostname = False
        incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        client = context.wrap_bio(incoming, outgoing, server_hostname=host, session=session)
        server = self.contexts.context.wrap_bio(outgoing, incoming, server_side=True)
        waiting = [client, server]
        for _ in range(10):
            for end in list(waiting):
                try:
                    end.do_handshake()
                    waiting.remove(end)
                except ssl.SSLWantReadError:
                    pass
            if not waiting:
                try:
                    client.read(1)  # tickets come behind the handshake
                except ssl.SSLWantReadError:
                    pass
                return client, server
        raise AssertionError("the handshake does not end")


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


# --- which certificate -----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", VERSIONS)
def test_the_name_chooses(world: World, version: ssl.TLSVersion) -> None:
    entries = [
        world.make("first.example", ("first.example", "also.example")),
        world.make("wild", ("*.shop.example",)),
        world.make("named", own=("own.example",)),
        world.make("cn-only.example"),
        world.make("exact", ("exact.shop.example",)),
    ]
    assert world.open(entries)
    for host, expected in {
        "first.example": "first.example",
        "ALSO.example": "first.example",
        "a.shop.example": "wild",
        "exact.shop.example": "exact",
        "a.b.shop.example": "first.example",  # a wildcard is one label
        "shop.example": "first.example",
        "own.example": "named",
        "cn-only.example": "cn-only.example",
        "nobody.example": "first.example",
        "127.0.0.1": "first.example",
        None: "first.example",
    }.items():
        assert world.shown(host, version=version) == expected, host
    assert not world.log.warnings


def test_of_two_entries_for_a_host_the_first_counts(world: World) -> None:
    world.open([world.make("one", ("a.example",)), world.make("two", ("a.example", "b.example"))])
    assert world.shown("a.example") == "one"
    assert world.shown("b.example") == "two"


def test_a_stored_certificate_wins(world: World) -> None:
    world.stored.add(authority().make("stored", ("b.example",)))
    world.open([world.make("one", ("a.example",)), world.make("two", ("b.example",))])
    assert world.shown("b.example") == "stored"
    assert world.shown("a.example") == "one"
    assert world.shown(None) == "one"


def test_a_stored_certificate_for_the_default_host_becomes_the_default(world: World) -> None:
    world.open([world.make("one", ("a.example",)), world.make("two", ("b.example",))])
    world.stored.add(authority().make("stored", ("x", "a.example")))
    assert world.shown(None) == "stored"
    world.stored.add(authority().make("newer", ("a.example",)))
    assert world.shown(None) == "newer"
    world.stored.of_servers.clear()
    world.stored.changes += 1
    assert world.shown(None) == "one"


def test_a_stored_certificate_alone_is_enough(world: World) -> None:
    world.stored.add(authority().make("stored"))
    assert world.open([])
    assert world.shown("anybody") == "stored"


def test_alpn(world: World) -> None:
    world.open([world.make("a.example"), world.make("b.example")])
    for host in ("a.example", "b.example"):
        for offered, agreed in {
            ("h2", "http/1.1"): "h2",
            ("http/1.1", "h2"): "h2",
            ("http/1.1",): "http/1.1",
            ("other",): None,
            (): None,
        }.items():
            client, server = world.shake_hands(host, alpn=offered)
            assert client.selected_alpn_protocol() == server.selected_alpn_protocol() == agreed
    world.open([world.make("a.example")], http2=False)
    assert world.shake_hands("a.example", alpn=("h2", "http/1.1"))[0].selected_alpn_protocol() == "http/1.1"


def test_ciphers_of_an_entry(world: World) -> None:
    cipher, other = "ECDHE-ECDSA-AES256-GCM-SHA384", "ECDHE-ECDSA-CHACHA20-POLY1305"
    world.open([world.make("a.example", ciphers=cipher), world.make("b.example", ciphers=other)])
    for host, agreed in (("a.example", cipher), ("b.example", other)):
        client, _ = world.shake_hands(host, ssl.TLSVersion.TLSv1_2)
        assert client.cipher()[0] == agreed  # type: ignore[index]


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("mtls", [None, Mtls(), Mtls(required=True)])
def test_sessions_are_resumed(world: World, version: ssl.TLSVersion, mtls: Mtls | None) -> None:
    world.open([world.make("a.example"), world.make("b.example")], mtls=mtls, authorities=[authority().file])
    context = client_context(version, certificate=authority().make("ann"))
    for host in ("a.example", "b.example"):
        client, server = world.shake_hands(host, context=context)
        assert not server.session_reused
        again, server = world.shake_hands(host, context=context, session=client.session)
        assert again.session_reused and server.session_reused
        certificate = world.contexts.peer_certificate(server)
        assert (certificate is None) == (mtls is None)
        assert certificate is None or certificate.common_name == "ann", "the certificate is in the ticket"


def test_old_versions_are_not_spoken(world: World) -> None:
    world.open([world.make("a.example")])
    assert world.contexts.context.minimum_version == ssl.TLSVersion.TLSv1_2
    assert world.contexts.context.options & ssl.OP_NO_RENEGOTIATION


# --- what cannot be used ---------------------------------------------------------------------------------------------------------------


def spoil(world: World, entry: Entry, how: str) -> str:
    """Make an entry unusable; returns a part of the sentence that tells why."""
    assert isinstance(entry.certificate, Path)
    other = authority().make("other")
    match how:
        case "no certificate":
            entry.certificate.unlink()
            return "it cannot be read: No such file"
        case "no key":
            entry.key.unlink()
            return "cannot be read: No such file"
        case "another key":
            entry.key.write_bytes(other.key_pem)
            return "does not belong to it"
        case "certificate is no PEM":
            entry.certificate.write_bytes(b"what?")
            return "it is not in PEM format"
        case "key is no PEM":
            entry.key.write_bytes(b"what?")
            return "is not in PEM format"
        case "cut":
            entry.certificate.write_bytes(other.pem[:200])
            return "cannot be understood"
        case "key of another kind":
            entry.key.write_bytes(b"-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n")
            return "cannot be understood"
        case "pass phrase":
            key = ec.generate_private_key(ec.SECP256R1())
            entry.key.write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, BestAvailableEncryption(b"x")))
            return "has a pass phrase"
        case "traditional pass phrase":
            key = ec.generate_private_key(ec.SECP256R1())
            entry.key.write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.TraditionalOpenSSL, BestAvailableEncryption(b"x")))
            return "has a pass phrase"
        case "directory":
            entry.key.unlink()
            entry.key.mkdir()
            return "cannot be read: Is a directory"
    raise AssertionError(how)


FAULTS = (
    "no certificate",
    "no key",
    "another key",
    "certificate is no PEM",
    "key is no PEM",
    "cut",
    "key of another kind",
    "pass phrase",
    "traditional pass phrase",
    "directory",
)


@pytest.mark.parametrize("how", FAULTS)
def test_nothing_usable_is_one_line(world: World, how: str) -> None:
    entry = world.make("a.example")
    part = spoil(world, entry, how)
    assert not world.open([entry])
    [line] = world.log.warnings
    assert line.startswith("http.securePort 9927 is not opened: certificate a.example: ") and part in line
    assert "PRIVATE KEY" not in line


@pytest.mark.parametrize("how", FAULTS)
def test_the_other_entries_still_work(world: World, how: str) -> None:
    entry, other = world.make("a.example"), world.make("b.example")
    part = spoil(world, entry, how)
    assert world.open([entry, other])
    [line] = world.log.warnings
    assert line.startswith("http.securePort 9927: certificate a.example: ") and part in line
    assert world.shown("a.example") == world.shown(None) == "b.example"


def test_ciphers_that_nobody_knows(world: World) -> None:
    assert not world.open([world.make("a.example", ciphers="ENIGMA")])
    assert "none of the ciphers 'ENIGMA' is known" in world.log.warnings[0]


def test_no_entry_at_all(world: World) -> None:
    assert not world.open([])
    assert world.log.warnings == ["http.securePort 9927 is not opened: there is no certificate for it"]


# --- changes ---------------------------------------------------------------------------------------------------------------------------


def test_new_files_are_used(world: World) -> None:
    world.open([world.make("old", file="a")])
    before = world.contexts.context
    world.refresh()
    assert world.contexts.context is before, "nothing has changed"
    world.make("new", file="a")
    world.contexts.refresh()
    assert world.shown(None) == "old", "not at every moment"
    world.refresh()
    assert world.shown(None) == "new"
    assert not world.log.warnings


@pytest.mark.parametrize("how", FAULTS)
def test_a_bad_new_file_keeps_the_old_context_and_is_told_once(world: World, how: str) -> None:
    entry = world.make("old", file="a")
    world.open([entry])
    part = spoil(world, entry, how)
    for _ in range(5):
        world.refresh()
    [line] = world.log.warnings
    assert part in line and line.endswith("the one before stays in use")
    assert world.shown(None) == "old"
    if how == "directory":
        entry.key.rmdir()
    world.make("new", file="a")
    world.refresh()
    assert world.shown(None) == "new"
    assert len(world.log.warnings) == 1


def test_the_moment_between_certificate_and_key_is_not_told(world: World) -> None:
    entry = world.make("old", file="a")
    world.open([entry])
    pair = authority().make("new")
    assert isinstance(entry.certificate, Path)
    entry.certificate.write_bytes(pair.pem)
    world.refresh()
    assert world.shown(None) == "old"
    entry.key.write_bytes(pair.key_pem)
    world.refresh()
    assert world.shown(None) == "new"
    assert not world.log.warnings


def test_a_connection_goes_on_while_certificates_change(world: World) -> None:
    world.open([world.make("old", file="a"), world.make("b.example")])
    client, server = world.shake_hands("a")
    world.make("new", file="a")
    world.refresh()
    client.write(b"still here")
    assert server.read(100) == b"still here"
    assert world.shown("new") == "new"


def test_tickets_stay_good_while_their_certificate_does(world: World) -> None:
    world.open([world.make("a.example"), world.make("b.example", file="b")])
    context = client_context(ssl.TLSVersion.TLSv1_3)
    client, _ = world.shake_hands("a.example", context=context)
    world.make("b.example", file="b")
    world.refresh()
    assert world.shake_hands("a.example", context=context, session=client.session)[0].session_reused


def test_records_count_from_the_next_handshake(world: World) -> None:
    world.open([world.make("one", ("a.example",))])
    world.stored.add(authority().make("stored", ("b.example",)))
    assert world.shown("b.example") == "stored"
    world.stored.of_servers.clear()
    world.stored.changes += 1
    assert world.shown("b.example") == "one"


def test_records_of_other_processes_are_found_at_a_look(world: World) -> None:
    world.open([world.make("one", ("a.example",))])
    pair = authority().make("stored", ("b.example",))
    world.stored.of_servers.append(Entry("certificate x", pair.pem.decode(), pair.key_file))
    assert world.shown("b.example") == "one"
    world.refresh()
    assert world.shown("b.example") == "stored"


def test_when_all_records_are_gone_the_last_one_stays(world: World) -> None:
    world.stored.add(authority().make("stored"))
    world.open([])
    world.stored.of_servers.clear()
    world.stored.changes += 1
    assert world.shown(None) == "stored"


# --- clients' certificates -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("required", [False, True])
@pytest.mark.parametrize("shows", ["good", "none", "of a stranger", "expired"])
def test_who_is_let_in(world: World, tmp_path: Path, version: ssl.TLSVersion, required: bool, shows: str) -> None:
    import datetime

    from tests.support.certificates import now

    world.open([world.make("a.example"), world.make("b.example")], mtls=Mtls(required=required), authorities=[authority().file])
    match shows:
        case "none":
            certificate = None
        case "of a stranger":
            certificate = Authority(tmp_path / "stranger", "Test Authority").make("ann")
        case "expired":
            certificate = authority().make("ann", end=now() - datetime.timedelta(hours=1))
        case _:
            certificate = authority().make("ann")
    for host in ("a.example", "b.example"):
        if shows == "good" or (shows == "none" and not required):
            _, server = world.shake_hands(host, version, certificate=certificate)
            found = world.contexts.peer_certificate(server)
            assert (found is None) == (shows == "none")
        else:
            with pytest.raises(ssl.SSLError):
                world.shake_hands(host, version, certificate=certificate)


def test_what_is_known_of_a_certificate(world: World) -> None:
    world.open([world.make("a.example")], mtls=Mtls(), authorities=[authority().file])
    pair = authority().make("ann")
    _, server = world.shake_hands(None, certificate=pair)
    found = world.contexts.peer_certificate(server)
    assert found is not None
    assert found.common_name == "ann"
    assert found.subject == "CN=ann" and found.issuer == "CN=Test Authority"
    assert int(found.serial, 16) == pair.certificate.serial_number
    assert found.fingerprint.replace(":", "").lower() == pair.fingerprint


def test_nobody_is_asked_without_mtls(world: World) -> None:
    world.open([world.make("a.example")])
    _, server = world.shake_hands(None, certificate=authority().make("ann"))
    assert server.getpeercert(True) is None
    assert world.contexts.peer_certificate(server) is None


def test_mtls_without_an_authority_opens_nothing(world: World, tmp_path: Path) -> None:
    assert not world.open([world.make("a.example")], mtls=Mtls(), authorities=[tmp_path / "ca.pem"])
    [line] = world.log.warnings
    assert "mtls needs an authority" in line and "ca.pem cannot be read" in line


def test_stored_authorities_are_trusted_too(world: World, tmp_path: Path) -> None:
    stranger = Authority(tmp_path / "stranger", "Stranger")
    world.open([world.make("a.example")], mtls=Mtls(required=True), authorities=[authority().file])
    certificate = stranger.make("bob")
    with pytest.raises(ssl.SSLError):
        world.shake_hands(None, certificate=certificate)
    world.stored.of_authorities = (stranger.pair.pem.decode(),)
    world.stored.changes += 1
    world.shake_hands(None, certificate=certificate)
    world.shake_hands(None, certificate=authority().make("ann"))


def test_an_authority_that_is_replaced_lets_nobody_of_the_old_one_in(world: World, tmp_path: Path) -> None:
    """Not even with a session from before."""
    file = tmp_path / "ca.pem"
    file.write_bytes(authority().pair.pem)
    world.open([world.make("a.example")], mtls=Mtls(required=True), authorities=[file])
    context = client_context(ssl.TLSVersion.TLSv1_3, certificate=authority().make("ann"))
    client, _ = world.shake_hands(None, context=context)
    file.write_bytes(Authority(tmp_path / "other", "Other").pair.pem)
    world.refresh()
    with pytest.raises(ssl.SSLError):
        world.shake_hands(None, context=context, session=client.session)


def test_an_authority_that_is_spoilt_changes_nothing(world: World, tmp_path: Path) -> None:
    file = tmp_path / "ca.pem"
    file.write_bytes(authority().pair.pem)
    world.open([world.make("a.example")], mtls=Mtls(required=True), authorities=[file])
    file.write_bytes(b"what?")
    for _ in range(3):
        world.refresh()
    [line] = world.log.warnings
    assert "ca.pem is not in PEM format" in line
    world.shake_hands(None, certificate=authority().make("ann"))
