"""Engines of nodes as real processes: who gets in, what survives, and what is said when something fails (spec: replication-engine §1, §2)."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import socket
import ssl
import subprocess
import sys
import tempfile
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from svc.clock import SYSTEM_CLOCK
from svc.cluster import engine
from svc.cluster.admission import sent_by, sent_to_all
from svc.cluster.certificates import certificate_check, engine_context
from svc.cluster.client import Address, ConnectFailed, Connection, Credentials, Unavailable
from svc.cluster.engine import Engine, State
from svc.cluster.engine_config import EngineFiles, EnginePort
from svc.cluster.engine_process import EngineProcess, find_program
from svc.cluster.external import server_address, server_credentials
from svc.cluster.identity import KnownNode, Trust
from svc.cluster.pieces import Answers, RequestRefused, ask, ask_series
from svc.cluster.reader import Gap, Gone, Lost, Replaced, StreamReader
from svc.cluster.signing import USER, SigningKey
from svc.cluster.streams import (
    Accepted,
    Conflict,
    NotStored,
    TooLarge,
    delete_stream,
    ensure_stream,
    last_message,
    maybe_stream,
    publish,
    purge_stream,
)
from svc.loop import new_loop
from svc.tls.certificates import read_certificate
from tests.support.engines import LogLines, NodeEngine, close_all, knows, trusts, until

pytestmark = pytest.mark.programs

STREAM, SUBJECT = "L__data__a", "svc.log.data.a"
TRACE = {"max_age": 3600.0, "max_bytes": 64 << 20}


def run(scene: Callable[[], Awaitable[None]]) -> None:
    """On a loop of ours, as in a server."""
    loop, _ = new_loop()
    try:
        loop.run_until_complete(asyncio.wait_for(scene(), 600))
    finally:
        loop.run_until_complete(loop.shutdown_asyncgens())
        loop.close()


async def fill(own: Connection, count: int, first: int = 1) -> None:
    await ensure_stream(own, STREAM, SUBJECT, **TRACE)
    for number in range(first, first + count):
        assert await publish(own, SUBJECT, b"%d" % number, {"L": str(number)}, expected=number - 1) == Accepted(number)


async def read(connection: Connection, start: int, count: int) -> list[int]:
    reader = await StreamReader.open(connection, STREAM, start)
    assert isinstance(reader, StreamReader), reader
    found: list[int] = []
    while len(found) < count:
        batch = await reader.next_batch()
        assert isinstance(batch, list), batch
        assert all(int(each.data) == each.sequence for each in batch)
        found += (each.sequence for each in batch)
    await reader.close()
    return found


def test_three_nodes_read_each_other_and_nobody_else(tmp_path: Path) -> None:
    async def scene() -> None:
        a, b, c = (NodeEngine(tmp_path, name) for name in "abc")
        stranger = NodeEngine(tmp_path, "d")
        try:
            await asyncio.gather(a.run(), b.run(), c.run())
            for node, others in ((a, (b, c)), (b, (a, c)), (c, (a, b))):
                await knows(node, *others)
            own = a.engine.connection
            assert own is not None
            await fill(own, 20)
            for node in (b, c):
                connection = await node.connect_to(a)
                assert await read(connection, 5, 16) == list(range(5, 21))
                await connection.close()

            with pytest.raises(ConnectFailed):  # not known: its certificate is not accepted
                await stranger.connect_to(a)
            assert a.log.has("TLS handshake error")
            with pytest.raises(ConnectFailed):  # no certificate
                context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
                context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
                await Connection.open(Address("127.0.0.1", a.engine.port, context), "x", "_INBOX")
            with pytest.raises(ConnectFailed):  # no TLS
                await Connection.open(Address("127.0.0.1", a.engine.port), "x", "_INBOX")
            with pytest.raises(ConnectFailed, match="not of node 'b'"):  # another node than the one that is looked for
                trust = Trust("c", {"b": KnownNode("b", (a.certificate.read_text(),))})
                other = engine_context(c.certificate, c.key, trust.anchors("b"))
                await Connection.open(Address("127.0.0.1", a.engine.port, other, certificate_check(trust, "b")), "c", "_INBOX_c")
            # Names and passwords, and keys, are nothing here: without a certificate they open nothing, with one they change nothing.
            for credentials in (Credentials(user="svc", password="svc"), Credentials(token="svc"), Credentials(SigningKey(USER))):
                with pytest.raises(ConnectFailed):
                    await Connection.open(Address("127.0.0.1", a.engine.port, context), "d", "_INBOX", credentials=credentials)
                with pytest.raises(ConnectFailed):
                    await stranger.connect_to(a, credentials=credentials)
            connection = await b.connect_to(a, credentials=Credentials(user="c", password="c"))
            with pytest.raises(Unavailable, match="permissions violation"):
                await connection.request(sent_by("c", "hello"), seconds=30)  # speaks for another
            await connection.close()
        finally:
            await close_all(a, b, c, stranger)

    run(scene)


def test_a_node_may_only_read(tmp_path: Path) -> None:
    async def scene() -> None:
        a, b = NodeEngine(tmp_path, "a"), NodeEngine(tmp_path, "b")
        try:
            own = await a.run()
            await fill(own, 3)
            await knows(a, b)
            for subject in (
                SUBJECT,
                "$JS.API.STREAM.CREATE.X",
                f"$JS.API.STREAM.DELETE.{STREAM}",
                f"$JS.API.STREAM.PURGE.{STREAM}",
                f"$JS.API.STREAM.MSG.DELETE.{STREAM}",
                f"$JS.API.STREAM.UPDATE.{STREAM}",
                "$SYS.REQ.USER.AUTH",
                "$SYS.REQ.SERVER.PING",
                "_INBOX_a.x",
                sent_to_all("hello"),
            ):
                connection = await b.connect_to(a)
                with pytest.raises(Unavailable, match="permissions violation"):
                    await connection.request(subject, b"{}", seconds=60)
                await until(lambda connection=connection: connection.is_closed)
            for subject in ("$SYS.>", "_INBOX_a.>", sent_by("c", ">"), "svc.log.>", ">"):
                connection = await b.connect_to(a)
                await connection.subscribe(subject, lambda message: None)
                await until(lambda connection=connection: connection.is_closed)
                assert "permissions violation" in connection.reason
            assert (await maybe_stream(own, STREAM)).last == 3  # type: ignore[union-attr]
        finally:
            await close_all(a, b)

    run(scene)


def test_revoked_and_removed_nodes_are_cut(tmp_path: Path) -> None:
    async def scene() -> None:
        a, b, c = (NodeEngine(tmp_path, name) for name in "abc")
        try:
            own = await a.run()
            await knows(a, b, c)
            first, second = await b.connect_to(a), await c.connect_to(a)
            await knows(a, c)  # b is removed
            await until(lambda: first.is_closed and second.is_closed)
            assert not own.is_closed
            with pytest.raises(ConnectFailed):
                await b.connect_to(a)
            second = await c.connect_to(a)
            # b's certificate is trusted again, but b's number is revoked
            serial = read_certificate(b.certificate.read_bytes(), "it").serial_number
            await trusts(a, Trust("a", {"b": b.known(frozenset({serial})), "c": c.known()}))
            await until(lambda: second.is_closed)
            with pytest.raises(ConnectFailed):
                await b.connect_to(a)
            assert a.log.has(f"the certificate {serial:X} of node 'b' is revoked", levels=("warn",))
            # a certificate that is trusted, as that of another node
            await trusts(a, Trust("a", {"z": KnownNode("z", (b.certificate.read_text(),))}))
            with pytest.raises(ConnectFailed):
                await b.connect_to(a)
            assert a.log.has("is refused: the node 'b' is not known", levels=("warn",))
            assert a.engine.refused == 2
        finally:
            await close_all(a, b, c)

    run(scene)


def test_an_engine_that_is_killed_or_hangs_comes_back(tmp_path: Path) -> None:
    async def scene() -> None:
        a, b = NodeEngine(tmp_path, "a"), NodeEngine(tmp_path, "b")
        try:
            own = await a.run()
            await knows(a, b)
            await fill(own, 5)
            reading = await b.connect_to(a)
            reader = await StreamReader.open(reading, STREAM, 6)
            assert isinstance(reader, StreamReader)
            waiting = asyncio.create_task(reader.next_batch())
            pid = a.engine.pid
            assert pid is not None
            os.kill(pid, signal.SIGKILL)
            assert isinstance(await waiting, Lost)
            await until(lambda: own.is_closed)
            assert isinstance(await publish(own, SUBJECT, b"6", {}, expected=5), NotStored)
            await until(lambda: a.engine.pid not in (None, pid))
            own = await a.running()
            assert a.log.has("SIGKILL", levels=("error",))
            assert await publish(own, SUBJECT, b"6", {}, expected=5) == Accepted(6)

            reading = await b.connect_to(a)
            reader = await StreamReader.open(reading, STREAM, 7)
            assert isinstance(reader, StreamReader)
            waiting = asyncio.create_task(reader.next_batch())
            pid = a.engine.pid
            assert pid is not None
            os.kill(pid, signal.SIGSTOP)
            assert isinstance(await waiting, Lost)
            await until(lambda: own.is_closed and reading.is_closed)
            assert "does not answer" in own.reason
            os.kill(pid, signal.SIGCONT)
            own = await a.running()
            assert await read(own, 1, 6) == [1, 2, 3, 4, 5, 6]
        finally:
            await close_all(a, b)

    run(scene)


def test_the_engine_ends_with_its_server(tmp_path: Path) -> None:
    """The next one starts its own on the same directory."""
    code = f"""
import asyncio, sys
from pathlib import Path
from tests.support.engines import NodeEngine
async def main():
    node = NodeEngine(Path({str(tmp_path)!r}), "a")
    await node.run()
    print(node.engine.pid, flush=True)
    await asyncio.sleep(600)
asyncio.run(main())
"""
    child = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, cwd=Path(__file__).parents[2])
    assert child.stdout is not None
    pid = int(child.stdout.readline())

    async def scene() -> None:
        node = NodeEngine(tmp_path, "a")
        try:
            node.engine.start()
            await until(lambda: node.engine.state is State.WAITING)
            assert node.log.has("another engine still runs", levels=("error",))
            os.kill(child.pid, signal.SIGKILL)
            await node.running()
            assert not _runs(pid)
        finally:
            await close_all(node)

    try:
        run(scene)
    finally:
        child.kill()
        child.wait()
        child.stdout.close()


def _runs(pid: int) -> bool:
    try:
        return "nats-server" in Path(f"/proc/{pid}/cmdline").read_text()
    except OSError:
        return False


def test_reading_and_its_ends(tmp_path: Path) -> None:
    async def scene() -> None:
        a, b = NodeEngine(tmp_path, "a"), NodeEngine(tmp_path, "b")
        try:
            own = await a.run()
            await knows(a, b)
            peer = await b.connect_to(a)
            assert await StreamReader.open(peer, STREAM, 1) == Gone()
            await fill(own, 30)
            info = await maybe_stream(own, STREAM)
            assert info is not None
            assert (info.first, info.last, info.messages) == (1, 30, 30)
            assert await publish(own, SUBJECT, b"x", {}, expected=29) == Conflict(30)
            assert isinstance(await publish(own, SUBJECT, bytes(2 << 20), {}, expected=30), TooLarge)
            found = await last_message(own, STREAM, SUBJECT)
            assert found is not None
            assert (found[0], found[1].headers["L"], found[1].data) == (30, "30", b"30")
            # small requests: the next is made when the batch before was taken
            reader = await StreamReader.open(peer, STREAM, 11, created=info.created, batch=4)
            assert isinstance(reader, StreamReader)
            got: list[int] = []
            while len(got) < 20:
                batch = await reader.next_batch()
                assert isinstance(batch, list)
                assert len(batch) <= 4
                got += (each.sequence for each in batch)
            assert got == list(range(11, 31))
            # what comes while it waits
            waiting = asyncio.create_task(reader.next_batch())
            await fill(own, 1, 31)
            batch = await waiting
            assert isinstance(batch, list)
            assert [each.sequence for each in batch] == [31]
            assert await purge_stream(own, STREAM, below=21) == 20
            assert await StreamReader.open(peer, STREAM, 5) == Gap(21)
            assert await read(peer, 21, 11) == list(range(21, 32))
            # purged between its position and what comes next
            behind = await StreamReader.open(peer, STREAM, 21, batch=2)
            assert isinstance(behind, StreamReader)
            assert isinstance(await behind.next_batch(), list)
            await purge_stream(own, STREAM, below=30)
            ends = []
            while not ends or isinstance(ends[-1], list):
                ends.append(await behind.next_batch())
            assert ends[-1] == Gap(30)
            # it lost its end, or is another one
            assert isinstance(await StreamReader.open(peer, STREAM, 33), Replaced)
            waiting = asyncio.create_task(reader.next_batch())
            await asyncio.sleep(0)
            await delete_stream(own, STREAM)
            assert isinstance(await waiting, Lost)
            await fill(own, 1)
            assert isinstance(await StreamReader.open(peer, STREAM, 1, created=info.created), Replaced)
        finally:
            await close_all(a, b)

    run(scene)


def test_large_requests(tmp_path: Path) -> None:
    async def scene() -> None:
        a, b = NodeEngine(tmp_path, "a"), NodeEngine(tmp_path, "b")
        try:
            own = await a.run()
            await knows(a, b)
            peer = await b.connect_to(a)

            async def handle(subject: str, data: bytes) -> bytes:
                if data == b"refuse":
                    raise RequestRefused("not now")
                if data.startswith(b"part "):
                    number = int(data[5:])
                    return content[number * 500_000 : (number + 1) * 500_000]
                return data[::-1]

            content = os.urandom(3 << 20)
            answers = Answers(own, handle)
            await answers.open(sent_by("b", "ask"))
            subject = sent_by("b", "ask")
            assert await ask(peer, subject, b"abc", seconds=60) == b"cba"
            assert await ask(peer, subject, content, seconds=60) == content[::-1]
            with pytest.raises(RequestRefused, match="not now"):
                await ask(peer, subject, b"refuse", seconds=60)
            parts = [part async for part in ask_series(peer, subject, lambda number: b"part %d" % number, seconds=60)]
            assert b"".join(parts) == content
            answers.check()
            await answers.close()
            with pytest.raises(Unavailable, match="nobody"):
                await ask(peer, subject, b"abc", seconds=60)
        finally:
            await close_all(a, b)

    run(scene)


def test_the_engine_has_what_was_said_before(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also when nothing is written for a while: a PING would overtake what waits."""

    async def scene() -> None:
        a = NodeEngine(tmp_path, "a")
        try:
            own = await a.run()
            other = await Connection.open(
                Address("127.0.0.1", a.engine.port, engine_context(a.certificate, a.key, a.certificate.read_text())),
                "second",
                "_INBOX_a",
                credentials=Credentials(a.engine._owner),
            )
            subscription = await own.subscribe("said", lambda message: None)
            await own.settle()
            transport = own._client._transport
            written, drain = asyncio.Event(), transport.drain

            async def slow_drain() -> None:
                await written.wait()
                await drain()

            with monkeypatch.context() as patch:
                patch.setattr(transport, "drain", slow_drain)
                await own.publish("nobody")  # and the next has to wait
                await asyncio.sleep(0)
                await subscription.stop()
                settled = asyncio.ensure_future(own.settle())
                assert await own.latency() > 0
                assert not settled.done()
                written.set()
                await settled
            with pytest.raises(Unavailable, match="nobody"):
                await other.request("said", seconds=60)
            await other.close()
        finally:
            await close_all(a)

    run(scene)


def test_what_hinders_it_is_said(tmp_path: Path) -> None:
    async def scene() -> None:
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            taken.listen()
            number = taken.getsockname()[1]
            first = NodeEngine(tmp_path, "first")
            busy = NodeEngine(tmp_path, "busy", port=EnginePort(number, "127.0.0.1", first.certificate, first.key))
            missing = NodeEngine(tmp_path, "missing", program=tmp_path / "nowhere")
            old = NodeEngine(tmp_path, "old", program=_old_program(tmp_path))
            wrong = NodeEngine(tmp_path, "wrong", port=EnginePort(0, "127.0.0.1", tmp_path / "none.pem", first.key))
            nodes = (busy, missing, old, wrong)
            try:
                for node in nodes:
                    node.engine.start()
                for node in nodes:
                    await until(lambda node=node: node.engine.fault)
                    node.engine.check()
                assert busy.engine.fault == f"replication.securePort {number} is in use"
                assert "the program is missing" in missing.engine.fault
                assert "its version is 2.9.10" in old.engine.fault
                assert "none.pem" in wrong.engine.fault
                for node in nodes:
                    assert node.log.has("writes go on", levels=("error",))
            finally:
                await close_all(*nodes)

    run(scene)


def _old_program(directory: Path) -> Path:
    program = directory / "old-engine"
    program.write_text("#!/bin/sh\necho '[1] [INF]   Version:  2.9.10' >&2\necho '[1] [INF] Server is ready' >&2\nexec sleep 600\n")
    program.chmod(0o755)
    return program


def test_a_damaged_store_is_said_or_survived(tmp_path: Path) -> None:
    async def scene() -> None:
        a = NodeEngine(tmp_path, "a")
        try:
            await fill(await a.run(), 5)
            await a.stop()
            for file in (a.root / "replication" / "streams").rglob("*"):
                if file.is_file():
                    file.write_bytes(b"\0" * 100)
            own = await a.run()
            # The stream is gone, or empty, and can be made again.
            if await maybe_stream(own, STREAM) is not None:
                await delete_stream(own, STREAM)
            await fill(own, 2)
        finally:
            await close_all(a)

    run(scene)


def test_a_full_disk_refuses_messages_until_the_next_start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if os.geteuid() != 0 or sys.platform != "linux":
        pytest.skip("only root can mount a small file system")
    directory = Path(tempfile.mkdtemp(dir=tmp_path))
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=8m", "tmpfs", str(directory)], capture_output=True, check=False).returncode:
        pytest.skip("no file system can be mounted here")

    monkeypatch.setattr(engine, "RESTART_SECONDS", 0.0)

    async def scene() -> None:
        a = NodeEngine(directory, "a", disk=1 << 30)
        try:
            own = await a.run()
            await ensure_stream(own, STREAM, SUBJECT, max_age=3600, max_bytes=1 << 30)
            last = 0
            filler = directory / "filler"
            filler.write_bytes(bytes(4 << 20))
            while isinstance(outcome := await publish(own, SUBJECT, os.urandom(500_000), {}, expected=last, seconds=5), Accepted):
                last = outcome.sequence
            assert isinstance(outcome, NotStored), outcome
            assert not a.engine.restart("it does not store"), "while there is no space"
            filler.unlink()
            assert a.engine.restart("it does not store")
            await until(lambda: own.is_closed)
            own = await a.running()
            info = await maybe_stream(own, STREAM)
            assert info is not None
            assert await publish(own, SUBJECT, b"small", {}, expected=info.last) == Accepted(info.last + 1)
            a.engine.check()
        finally:
            await close_all(a)

    try:
        run(scene)
    finally:
        subprocess.run(["umount", str(directory)], check=False)
        shutil.rmtree(directory, ignore_errors=True)


def test_a_plain_port_knows_nodes_by_address(tmp_path: Path) -> None:
    async def scene() -> None:
        a = NodeEngine(tmp_path, "a", port=EnginePort(0, "127.0.0.1"))
        try:
            await a.run()
            address = Address("127.0.0.1", a.engine.port)
            with pytest.raises(ConnectFailed):
                await Connection.open(address, "b", "_INBOX_b")
            await trusts(a, Trust("a", {"b": KnownNode("b", addresses=frozenset({"127.0.0.1"}))}))
            connection = await Connection.open(address, "b", "_INBOX_b")
            assert await connection.latency() > 0
            await connection.close()
        finally:
            await close_all(a)

    run(scene)


def test_an_engine_that_runs_elsewhere(tmp_path: Path) -> None:
    async def scene() -> None:
        files = EngineFiles(tmp_path)
        files.configuration.write_text(
            f'host: "127.0.0.1"\nport: -1\nlogtime: false\njetstream {{ store_dir: "{tmp_path}/js" }}\nauthorization {{ user: u, password: "p w" }}\n'
        )
        ready, ended = asyncio.Event(), asyncio.Event()
        process = EngineProcess(LogLines(), SYSTEM_CLOCK, ready.set, lambda status: ended.set())  # type: ignore[arg-type]
        program = find_program()
        assert program is not None
        process.start(program, files)
        try:
            await asyncio.wait_for(ready.wait(), 120)
            address = server_address(f"nats://127.0.0.1:{process.port}")
            with pytest.raises(ConnectFailed):
                await Connection.open(address, "a", "_INBOX", credentials=server_credentials({"username": "u", "password": "x"}, tmp_path))
            own = await Connection.open(
                address, "a", "_INBOX", credentials=server_credentials({"username": "u", "password": "p w"}, tmp_path)
            )
            await fill(own, 3)
            assert await read(own, 2, 2) == [2, 3]
            await own.close()
        finally:
            process.signal(signal.SIGTERM)
            await asyncio.wait_for(ended.wait(), 120)

    run(scene)


def test_start_and_stop_in_any_order(tmp_path: Path) -> None:
    async def scene() -> None:
        a = NodeEngine(tmp_path, "a")
        tried: Engine = a.engine
        try:
            tried.stop()
            for _ in range(3):
                tried.start()
                tried.start()
                tried.stop()
                tried.check()
                tried.start()  # before it has ended
                tried.check()
            await a.running()
            await a.stop()
            await a.run()
        finally:
            await close_all(a)

    run(scene)
