"""svc.store.env: the turn's transactions, other processes' commits, errors."""

import errno
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import lmdb
import pytest

from svc.errors import NoSpace, StoreFailure
from svc.store.disk.faults import store_problem
from svc.store.disk.writer_gate import WriterGate
from svc.store.env import HEAD_START, Environment, Handle

pytestmark = pytest.mark.programs


@pytest.fixture
def env(tmp_path: Path) -> Iterator[Environment]:
    env = Environment(tmp_path / "db")
    yield env
    env.close()


@pytest.fixture
def handle(env: Environment) -> Handle:
    env.writer()
    handle = env.create_store("things")
    env.commit()
    return handle


def put(env: Environment, handle: Handle, key: bytes, value: bytes) -> None:
    child = env.child()
    child.put(key, value, db=handle)
    env.commit_child(child)


def write_elsewhere(path: Path, key: str, value: str) -> None:
    """What a sibling instance does: another process, because LMDB allows one environment of a directory in each."""
    code = (
        "import lmdb, sys; env = lmdb.open(sys.argv[1], map_size=1 << 40, max_dbs=1024); db = env.open_db(b'things')\n"
        "with env.begin(write=True) as txn: txn.put(sys.argv[2].encode(), sys.argv[3].encode(), db=db)"
    )
    subprocess.run([sys.executable, "-c", code, str(path), key, value], check=True)


def test_durability_rests_on_these_flags(env: Environment, tmp_path: Path) -> None:
    flags = env.flags()
    assert flags["sync"] and flags["metasync"] and flags["lock"] and flags["subdir"]
    assert not flags["writemap"] and not flags["map_async"]
    other = Environment(tmp_path / "async", write_async=True)
    assert not other.flags()["sync"] and not other.flags()["writemap"]
    other.sync()
    other.close()


def test_the_data_belongs_to_its_owner_alone(env: Environment) -> None:
    assert env.path.stat().st_mode & 0o777 == 0o700
    assert (env.path / "data.mdb").stat().st_mode & 0o777 == 0o600


def test_snapshot_is_shared_and_ends(env: Environment, handle: Handle) -> None:
    first = env.snapshot()
    assert env.snapshot() is first and env.is_current(first)
    put(env, handle, b"a", b"1")
    assert first.get(b"a", db=handle) is None, "a snapshot does not see the turn's writes"
    env.commit()
    assert env.snapshot() is first and first.get(b"a", db=handle) is None, "nor a commit in the middle of the turn"
    assert not env.is_current(first), "but what follows commits must not be mixed with it"
    env.end_snapshot()
    assert env.snapshot().get(b"a", db=handle) == b"1"


def test_private_snapshot_outlives_commits(env: Environment, handle: Handle) -> None:
    private = env.open_snapshot()
    put(env, handle, b"a", b"1")
    env.commit()
    assert private.get(b"a", db=handle) is None and not env.is_current(private)
    private.abort()


def test_a_child_is_undone_alone(env: Environment, handle: Handle) -> None:
    put(env, handle, b"a", b"1")
    child = env.child()
    child.put(b"b", b"2", db=handle)
    child.abort()
    put(env, handle, b"c", b"3")
    env.commit()
    env.end_snapshot()
    assert list(env.snapshot().cursor(handle)) == [(b"a", b"1"), (b"c", b"3")]


def test_a_commit_without_writes_is_none(env: Environment, handle: Handle) -> None:
    before = env.current
    env.writer()
    assert env.has_writer
    env.commit()
    assert not env.has_writer and env.current == before


def test_abort_undoes_the_turn(env: Environment, handle: Handle) -> None:
    put(env, handle, b"a", b"1")
    env.abort()
    assert not env.has_writer and env.snapshot().get(b"a", db=handle) is None


def test_a_store_of_an_aborted_transaction_can_be_made_again(env: Environment) -> None:
    env.writer()
    env.create_store("lost")
    env.abort()
    assert env.open_stores(["lost"]) == [None]
    env.writer()
    handle = env.create_store("lost")
    env.writer().put(b"a", b"1", db=handle)
    env.commit()
    assert env.snapshot().get(b"a", db=handle) == b"1"


def test_stores_are_found_again(env: Environment, handle: Handle, tmp_path: Path) -> None:
    put(env, handle, b"a", b"1")
    env.commit()
    env.close()
    again = Environment(tmp_path / "db")
    found, missing = again.open_stores(["things", "others"])
    assert missing is None and found is not None
    assert again.snapshot().get(b"a", db=found) == b"1"
    again.close()


@pytest.mark.parametrize("first_look", ["snapshot", "writer"])
def test_a_commit_of_another_process_is_noticed_once(env: Environment, handle: Handle, first_look: str) -> None:
    calls: list[int] = []
    env.on_foreign_commit = lambda: calls.append(env.current)
    put(env, handle, b"a", b"1")
    env.commit()
    env.snapshot()
    env.end_snapshot()
    assert calls == [], "our own commits are no news"
    write_elsewhere(env.path, "b", "2")
    if first_look == "snapshot":
        assert env.snapshot().get(b"b", db=handle) == b"2"
    else:
        assert env.writer().get(b"b", db=handle) == b"2"
        env.commit()
    assert len(calls) == 1
    env.snapshot()
    assert len(calls) == 1


def test_a_foreign_commit_after_an_empty_one_of_ours_is_noticed(env: Environment, handle: Handle) -> None:
    """LMDB gives the id of a transaction that wrote nothing to the next one."""
    calls: list[int] = []
    env.on_foreign_commit = lambda: calls.append(env.current)
    env.writer()
    env.commit()
    write_elsewhere(env.path, "b", "2")
    env.snapshot()
    assert len(calls) == 1


class Early:
    """LMDB while another process is in the middle of a commit: `info` shows it already, transactions do not begin there yet."""

    def __init__(self, env: lmdb.Environment) -> None:
        self._env = env

    def __getattr__(self, name: str) -> Any:
        return getattr(self._env, name)

    def info(self) -> dict[str, int]:
        info = dict(self._env.info())
        return {**info, "last_txnid": info["last_txnid"] + 1}


def test_a_commit_that_only_info_shows_is_not_seen_yet(env: Environment, handle: Handle, monkeypatch: pytest.MonkeyPatch) -> None:
    """The meta page of the next commit can be read before the other process' write of it has returned."""
    calls: list[bytes | None] = []

    def follow() -> None:
        assert len(calls) < 5, "it never gets to where the other process is"
        calls.append(env.snapshot().get(b"b", db=handle))

    env.on_foreign_commit = follow
    write_elsewhere(env.path, "b", "1")
    with monkeypatch.context() as patch:
        patch.setattr(env, "_env", Early(env._env))
        assert env.snapshot().get(b"b", db=handle) == b"1"
    env.end_snapshot()
    assert calls == [b"1"]
    write_elsewhere(env.path, "b", "2")
    put(env, handle, b"a", b"1")
    assert calls == [b"1", b"2"], "the commit that had been under way was taken for one that is known"
    env.commit()
    assert env.snapshot().get(b"b", db=handle) == b"2"


@pytest.mark.parametrize("first_look", ["snapshot", "writer"])
def test_what_is_followed_is_one_commit(env: Environment, handle: Handle, first_look: str) -> None:
    """Another process goes on committing meanwhile, unless this one is about to write: then nothing comes in between."""
    seen: list[tuple[bytes | None, bytes | None]] = []

    def follow() -> None:
        before = env.snapshot().get(b"b", db=handle)
        if first_look == "snapshot" and len(seen) < 2:
            write_elsewhere(env.path, "b", str(len(seen) + 2))
        seen.append((before, env.snapshot().get(b"b", db=handle)))

    env.on_foreign_commit = follow
    write_elsewhere(env.path, "b", "1")
    if first_look == "snapshot":
        assert env.snapshot().get(b"b", db=handle) == b"3"
        assert seen == [(b"1", b"1"), (b"2", b"2"), (b"3", b"3")], "a commit was followed within another, or in two halves"
    else:
        put(env, handle, b"c", b"")
        assert seen == [(b"1", b"1")]
        env.commit()
    assert env.is_current(env.snapshot())


@pytest.mark.parametrize("first_look", ["snapshot", "writer", "long"])
def test_stores_that_are_new_here_are_opened_on_the_way(env: Environment, handle: Handle, first_look: str) -> None:
    """Opening a store takes a write transaction, also where one is about to begin."""
    found: list[Handle | None] = []
    env.on_foreign_commit = lambda: found.extend(env.open_stores(["others"]))
    code = (
        "import lmdb, sys; env = lmdb.open(sys.argv[1], map_size=1 << 40, max_dbs=1024); db = env.open_db(b'others')\n"
        "with env.begin(write=True) as txn: txn.put(b'a', b'1', db=db)"
    )
    subprocess.run([sys.executable, "-c", code, str(env.path)], check=True)
    if first_look == "snapshot":
        env.snapshot()
    elif first_look == "writer":
        put(env, handle, b"c", b"")
        env.commit()
    else:
        holder = Patient()
        env.hold(holder)
        assert env.begin_long()
        env.abort_long()
        env.release()
    assert len(found) == 1 and found[0] is not None
    assert env.snapshot().get(b"a", db=found[0]) == b"1"


def test_who_stops_until_a_long_writer_has_ended_says_so(env: Environment, handle: Handle) -> None:
    """A load makes way then, instead of stopping the loop for a whole batch."""
    other = WriterGate(env.path)
    assert other.try_acquire_exclusive()

    def make_way() -> None:
        while not other.is_awaited():
            time.sleep(0.001)
        other.release_exclusive()

    thread = threading.Thread(target=make_way)
    thread.start()
    found = env.open_stores(["things"])
    thread.join()
    assert found[0] is not None
    assert not other.is_awaited()
    other.close()


def test_others_open_new_stores_before_a_long_writer_begins(env: Environment, handle: Handle, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Environment, "has_siblings", lambda self: True)
    holder = Patient()
    for first in (HEAD_START, 0):
        env.hold(holder)
        for _ in range(first):
            assert not env.begin_long()
        assert env.begin_long()
        env.abort_long()
        env.release()
    env.writer()
    env.create_store("others")
    env.commit()
    monkeypatch.undo()
    env.hold(holder)
    assert env.begin_long(), "there is nobody to wait for"
    env.abort_long()
    env.release()


class Patient:
    """Has the long writer, and no reason to give it back."""

    def yield_writer(self) -> None:
        raise AssertionError("nobody asked for it")

    def finish(self) -> None:
        raise AssertionError("nothing was committed")


@pytest.mark.parametrize("first_look", ["snapshot", "writer"])
def test_what_could_not_be_followed_is_followed_at_the_next_look(env: Environment, handle: Handle, first_look: str) -> None:
    fails, calls = [StoreFailure("not now")], []

    def follow() -> None:
        env.snapshot()
        if fails:
            raise fails.pop()
        calls.append(env.current)

    env.on_foreign_commit = follow
    write_elsewhere(env.path, "b", "2")
    with pytest.raises(StoreFailure, match="not now"):
        env.snapshot() if first_look == "snapshot" else env.writer()
    assert not env.has_writer
    write_elsewhere(env.path, "c", "3")  # nothing of ours keeps it from writing
    assert env.snapshot().get(b"b", db=handle) == b"2"
    assert len(calls) == 1


def test_a_forgotten_position_is_found_by_following(env: Environment, handle: Handle) -> None:
    calls: list[int] = []
    env.on_foreign_commit = lambda: calls.append(env.current)
    put(env, handle, b"a", b"1")
    env.forget_position()
    env.commit()
    assert calls == []
    env.snapshot()
    assert len(calls) == 1
    env.end_snapshot()
    put(env, handle, b"a", b"2")
    env.commit()
    env.snapshot()
    assert len(calls) == 1


def coded(code: int) -> lmdb.Error:
    """An error as LMDB raises it for an operating system's."""
    error = lmdb.Error("mdb_txn_commit")
    error.code = code  # type: ignore[misc]
    return error


@pytest.mark.parametrize(
    ("error", "kind", "words"),
    [
        (lmdb.MapFullError("put"), NoSpace, "size of its map"),
        (coded(errno.ENOSPC), NoSpace, "volume"),
        (coded(errno.EDQUOT), NoSpace, "volume"),
        (OSError(errno.ENOSPC, "full"), NoSpace, "volume"),
        (coded(errno.EIO), StoreFailure, "could not be read or written"),
        (lmdb.ReadersFullError("begin"), StoreFailure, "try again later"),
        (lmdb.DbsFullError("open"), StoreFailure, "use another database"),
        (lmdb.CorruptedError("get"), StoreFailure, "restore a backup"),
        (lmdb.InvalidError("open"), StoreFailure, "restore a backup"),
        (lmdb.PanicError("commit"), StoreFailure, "restart"),
    ],
)
def test_errors_become_answers_that_name_the_remedy(error: lmdb.Error | OSError, kind: type, words: str) -> None:
    problem = store_problem(error, Path("/secret/place"))
    assert type(problem) is kind and words in problem.message and "secret" not in problem.message


def test_a_damaged_file_is_named_as_such(tmp_path: Path) -> None:
    (tmp_path / "db").mkdir()
    (tmp_path / "db" / "data.mdb").write_bytes(b"no database" * 1000)
    with pytest.raises(StoreFailure, match="damaged or of another kind"):
        Environment(tmp_path / "db")


def test_a_file_in_place_of_the_directory(tmp_path: Path) -> None:
    (tmp_path / "db").write_bytes(b"")
    with pytest.raises(StoreFailure):
        Environment(tmp_path / "db")


def test_copy_and_figures(env: Environment, handle: Handle, tmp_path: Path) -> None:
    put(env, handle, b"a", b"1" * 10_000)
    env.commit()
    assert env.used_bytes() > 10_000
    assert env.free_stale_readers() == 0
    (tmp_path / "copy").mkdir()
    env.copy(tmp_path / "copy")
    copy = Environment(tmp_path / "copy")
    (found,) = copy.open_stores(["things"])
    assert copy.snapshot().get(b"a", db=found) == b"1" * 10_000
    copy.close()
