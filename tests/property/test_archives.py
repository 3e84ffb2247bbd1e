"""Any archive: what comes out is below the directory, or the archive is refused; never anything else."""

from __future__ import annotations

import io
import os
import tarfile
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from svc.deploying.unpacking import ArchiveLimits, unpack
from svc.errors import ClientError
from tests.support.archives import member, tar, tar_of

NAMES = st.lists(st.sampled_from(["a", "A", "b", "..", ".", "", "l", "x" * 120, "é", "e\u0301", "\n", "\\", "~", "c.py"]), max_size=5).map(
    "/".join
)
TARGETS = st.one_of(NAMES, st.sampled_from(["/etc/passwd", "..", "../..", "l", "l/..", "a/../../b", "."]))
KINDS = st.sampled_from(
    [tarfile.REGTYPE, tarfile.DIRTYPE, tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.FIFOTYPE, tarfile.CHRTYPE, tarfile.CONTTYPE]
)
MEMBERS = st.lists(st.tuples(NAMES, KINDS, TARGETS, st.binary(max_size=20), st.sampled_from([0o644, 0o4777, 0])), max_size=12)
LIMITS = ArchiveLimits(members=10, size=150)


def taken(data: bytes, place: Path) -> bool:
    """Whether the archive was unpacked; what is there is checked."""
    outside = place.parent / "outside"
    outside.write_text("untouched")
    before = sorted(os.listdir(place.parent))
    try:
        unpack(io.BytesIO(data), place, LIMITS)
    except ClientError as error:
        assert error.message.isprintable()
        return False
    finally:
        assert sorted(set(os.listdir(place.parent)) - {place.name}) == before
        assert outside.read_text() == "untouched"
    root = os.path.realpath(place)
    size = 0
    for path, directories, names in os.walk(place):
        for name in (*directories, *names):
            found = os.path.join(path, name)
            assert os.path.realpath(found) == root or os.path.realpath(found).startswith(root + os.sep)
            status = os.lstat(found)
            if os.path.islink(found):
                continue
            assert status.st_mode & 0o7022 == 0
            size += status.st_size if os.path.isfile(found) else 0
    assert size <= LIMITS.size * 2  # a hard link is no second copy
    return True


@given(MEMBERS)
@example([("/\n", tarfile.REGTYPE, "", b"", 0)])
@example([("l", tarfile.SYMTYPE, ".", b"", 0), ("l/l/l/x", tarfile.REGTYPE, "", b"1", 0)])
def test_members_of_any_name_and_kind(tmp_path_factory: pytest.TempPathFactory, members: list[tuple[str, bytes, str, bytes, int]]) -> None:
    data = tar(
        *(
            (member(name, type=kind, linkname=target, mode=mode), content if kind == tarfile.REGTYPE else b"")
            for name, kind, target, content, mode in members
        )
    )
    taken(data, tmp_path_factory.mktemp("archive") / "version")


WHOLE = tar_of({"config.yaml": "rest: true\n", "web/a": "1" * 50, "x" * 130: "long"}, mode="w")


@given(st.lists(st.tuples(st.integers(0, len(WHOLE) - 1), st.integers(0, 255)), min_size=1, max_size=8), st.integers(0, len(WHOLE)))
def test_a_damaged_archive_is_taken_or_refused(tmp_path_factory: pytest.TempPathFactory, changes: list[tuple[int, int]], cut: int) -> None:
    data = bytearray(WHOLE)
    for position, value in changes:
        data[position] = value
    taken(bytes(data[: max(cut, 1024)]), tmp_path_factory.mktemp("archive") / "version")


@given(st.binary(max_size=600), st.sampled_from([b"", b"\x1f\x8b\x08", b"\x28\xb5\x2f\xfd", b"PK\x03\x04"]))
def test_any_bytes_are_refused(tmp_path_factory: pytest.TempPathFactory, data: bytes, begin: bytes) -> None:
    assert not taken(begin + data, tmp_path_factory.mktemp("archive") / "version")
