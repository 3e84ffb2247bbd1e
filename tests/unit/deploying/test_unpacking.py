"""What comes out of an archive, whatever is in it."""

from __future__ import annotations

import gzip
import io
import os
import tarfile
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import IO

import pytest
import zstandard

from svc.deploying.tar_reader import BadArchive, TarReader
from svc.deploying.unpacking import ArchiveLimits, unpack
from svc.errors import NoSpace, Problem
from svc.store.backup.watch import CopyStopped, Watch
from tests.support.archives import member, tar, tar_of


@pytest.fixture
def place(tmp_path: Path) -> Path:
    (tmp_path / "outside").mkdir()
    return tmp_path / "outside" / "version"


def unpacked(data: bytes, place: Path, limits: ArchiveLimits | None = None) -> dict[str, str]:
    unpack(io.BytesIO(data), place, limits or ArchiveLimits())
    return {path.relative_to(place).as_posix(): path.read_text() for path in sorted(place.rglob("*")) if path.is_file()}


def refused(data: bytes, place: Path, limits: ArchiveLimits | None = None) -> str:
    with pytest.raises(Problem) as caught:
        unpack(io.BytesIO(data), place, limits or ArchiveLimits())
    assert place.name in os.listdir(place.parent) or not place.exists()
    assert not [path for path in place.parent.parent.rglob("*evil*") if not path.is_relative_to(place)], "nothing is written elsewhere"
    assert caught.value.status_code == 400
    return caught.value.message


@pytest.mark.parametrize("mode", ["w", "w:gz"])
def test_files_come_out(mode: str, place: Path) -> None:
    assert unpacked(tar_of({"config.yaml": "a", "web/x/index.html": "b"}, mode=mode), place) == {
        "config.yaml": "a",
        "web/x/index.html": "b",
    }


def test_zstandard_is_understood(place: Path) -> None:
    assert unpacked(zstandard.compress(tar_of({"a": "1", "b": "2"}, mode="w")), place) == {"a": "1", "b": "2"}


def test_a_single_top_folder_is_stripped(place: Path) -> None:
    assert unpacked(tar_of({"config.yaml": "a", "shop/b": "c"}, top="shop"), place) == {"config.yaml": "a", "shop/b": "c"}


def test_a_folder_is_kept_where_the_root_is_a_member(place: Path) -> None:
    assert unpacked(tar((member(".", type=tarfile.DIRTYPE), b""), (member("./web/a"), b"1")), place) == {"web/a": "1"}


def test_files_get_plain_modes_and_their_time(place: Path) -> None:
    unpacked(tar((member("a", mode=0o6777, mtime=1_700_000_000), b"1"), (member("b", mode=0o4644, mtime=1e300), b"1")), place)
    assert [(place / name).stat().st_mode & 0o7777 for name in "ab"] == [0o755, 0o644]
    assert [(place / name).stat().st_mtime for name in "ab"] == [1_700_000_000, 0]


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("../evil", "'../evil' leads out of the directory"),
        ("a/../../evil", "'a/../../evil' leads out of the directory"),
        ("/etc/evil", "'/etc/evil' is an absolute path"),
        ("a\\b", "'a\\\\b' is not the name of a file"),
        ("a\x1b[2J", "'a\\x1b[2J' is not the name of a file"),
        ("x" * 256, "is too long"),
        ("/".join(["x" * 9] * 150), "is too long"),
        ("/".join(["d"] * 65), "too deep"),
    ],
)
def test_names_that_lead_out_or_are_none_are_refused(name: str, text: str, place: Path) -> None:
    assert text in refused(tar((member("ok"), b"1"), (member(name), b"1")), place)


@pytest.mark.parametrize("kind", [tarfile.CHRTYPE, tarfile.BLKTYPE, tarfile.FIFOTYPE, b"Z"])
def test_devices_and_the_like_are_refused(kind: bytes, place: Path) -> None:
    text = refused(tar((member("dev/null", type=kind, devmajor=1, devminor=3), b"")), place)
    assert "'dev/null'" in text or "cannot be read" in text


def test_a_sparse_file_is_refused(place: Path) -> None:
    pax = {"GNU.sparse.major": "0", "GNU.sparse.minor": "1", "GNU.sparse.map": "0,1,99999999999,1", "GNU.sparse.size": "100000000000"}
    assert "sparse" in refused(tar((member("big", pax_headers=pax), b"ab")), place)


@pytest.mark.parametrize("target", ["/etc/passwd", "../outside-of-it", "a/../../x", "../../../etc", ""])
def test_links_that_lead_out_are_refused(target: str, place: Path) -> None:
    refused(tar((member("ok"), b"1"), (member("l", type=tarfile.SYMTYPE, linkname=target), b"")), place)


def test_a_chain_of_links_that_leads_out_is_refused(place: Path) -> None:
    links = [member("x", type=tarfile.SYMTYPE, linkname="."), member("z", type=tarfile.SYMTYPE, linkname="x/x/x/../..")]
    assert "leads out" in refused(tar((member("ok"), b"1"), *((link, b"") for link in links)), place)


def test_a_link_that_leads_out_only_once_the_top_folder_is_gone_is_refused(place: Path) -> None:
    assert "leads out" in refused(
        tar((member("top/a"), b"1"), (member("top/l", type=tarfile.SYMTYPE, linkname="../../version.txt"), b"")), place
    )


def test_nothing_is_written_through_a_link(place: Path) -> None:
    data = tar((member("l", type=tarfile.SYMTYPE, linkname=".."), b""), (member("l/evil"), b"1"))
    assert "which is a link" in refused(data, place)
    data = tar((member("l", type=tarfile.SYMTYPE, linkname="../evil"), b""), (member("l"), b"1"))
    assert "twice" in refused(data, place.with_name("other"))


def test_links_inside_are_kept(place: Path) -> None:
    data = tar(
        (member("web/a"), b"1"),
        (member("b", type=tarfile.SYMTYPE, linkname="web/a"), b""),
        (member("c", type=tarfile.LNKTYPE, linkname="web/a"), b""),
    )
    assert unpacked(data, place) == {"web/a": "1", "b": "1", "c": "1"}
    assert os.readlink(place / "b") == "web/a"


@pytest.mark.parametrize("target", ["later", "/etc/passwd", "../x", "l"])
def test_hard_links_lead_only_to_files_before_them(target: str, place: Path) -> None:
    link = member("l", type=tarfile.SYMTYPE, linkname="a")
    refused(
        tar((member("a"), b"1"), (link, b""), (member("h", type=tarfile.LNKTYPE, linkname=target), b""), (member("later"), b"1")), place
    )


@pytest.mark.parametrize("names", [("a", "a"), ("Readme", "README"), ("caf\u00e9", "cafe\u0301"), ("a", "a/b"), ("a/b", "a")])
def test_names_that_are_one_somewhere_are_refused(names: tuple[str, str], place: Path) -> None:
    assert names[1] in refused(tar(*((member(name), b"1") for name in names)), place)


def test_directories_that_differ_only_in_case_are_refused(place: Path) -> None:
    assert "'X' differs from 'x' only in upper and lower case" in refused(tar_of({"x/A": "1", "X/b": "1"}), place)


def test_a_directory_may_come_twice(place: Path) -> None:
    folder = [(member("d", type=tarfile.DIRTYPE), b"") for _ in range(2)]
    assert unpacked(tar((member("d/a"), b"1"), (member("e"), b"2"), *folder), place) == {"d/a": "1", "e": "2"}


# --- budgets


def test_too_many_members_are_refused_before_they_are_written(place: Path) -> None:
    data = tar_of({f"f{number}": "" for number in range(30)})
    assert "more than 20 members" in refused(data, place, ArchiveLimits(members=20))
    assert len(os.listdir(place)) <= 20


def test_too_many_directories_are_refused(place: Path) -> None:
    data = tar_of({"/".join([f"d{number}"] * 30): "" for number in range(19)})
    assert "more than 20 directories" in refused(data, place, ArchiveLimits(members=20))


def test_a_size_that_is_only_claimed_is_refused(place: Path) -> None:
    header = member("zeros", size=100 << 30).tobuf(tarfile.GNU_FORMAT)
    assert "'zeros' has 107374182400 bytes" in refused(header + bytes(1024), place)
    assert os.listdir(place) == []


def test_a_bomb_is_refused_while_it_is_small(place: Path) -> None:
    data = gzip.compress(tar((member("zeros"), bytes(30 << 20))))
    assert len(data) < 1 << 16
    assert "more than 1048576 bytes" in refused(data, place, ArchiveLimits(size=1 << 20))
    assert sum(path.stat().st_size for path in place.rglob("*")) <= 1 << 20


def test_a_bomb_of_what_is_skipped_is_refused(place: Path) -> None:
    folder = member("d", type=tarfile.DIRTYPE, size=64 << 20)
    data = gzip.compress(folder.tobuf(tarfile.GNU_FORMAT) + bytes(64 << 20) + bytes(1024))
    assert "is unpacked" in refused(data, place, ArchiveLimits(members=10, size=1 << 20))


def test_zeros_behind_the_end_are_refused(place: Path) -> None:
    data = gzip.compress(tar((member("a"), b"1")) + bytes(64 << 20))
    assert "is unpacked" in refused(data, place, ArchiveLimits(members=10, size=1 << 20))


@pytest.mark.parametrize("kind", [tarfile.XHDTYPE, tarfile.XGLTYPE, tarfile.GNUTYPE_LONGNAME, tarfile.GNUTYPE_LONGLINK])
def test_a_header_that_claims_gigabytes_is_refused(kind: bytes, place: Path) -> None:
    header = member("x", type=kind, size=4 << 30).tobuf(tarfile.GNU_FORMAT)
    assert "header of more than" in refused(header + bytes(1 << 20), place)


@pytest.mark.parametrize("record", [b"5 " * 20_000, b"9" * 60_000, b"11 hdrcharset=" + b"7" * 9000, b"6 a=b\n" * 5 + b"0 a=b\n"])
def test_a_header_that_takes_long_to_read_is_refused(record: bytes, place: Path) -> None:
    padded = record + bytes(-len(record) % 512)
    header = member("x", type=tarfile.XHDTYPE, size=len(record)).tobuf(tarfile.USTAR_FORMAT)
    assert "damaged header" in refused(header + padded + tar((member("a"), b"1")), place)


def test_headers_of_headers_end(place: Path) -> None:
    header = member("x", type=tarfile.GNUTYPE_LONGNAME, size=10).tobuf(tarfile.GNU_FORMAT) + b"abcdefghi\0" + bytes(502)
    refused(header * 5000, place)


# --- damage


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"x",
        b"hello" * 1000,
        bytes(10240),
        b"\x1f\x8b",
        b"\x1f\x8bhello" * 100,
        b"\x28\xb5\x2f\xfd" + b"x" * 99,
        b"PK\x03\x04" + b"x" * 99,
    ],
)
def test_what_is_no_archive_is_refused(data: bytes, place: Path) -> None:
    refused(data, place)


@pytest.mark.parametrize("part", [0.1, 0.5, 0.9, 0.999])
def test_an_archive_that_is_cut_off_is_refused(part: float, place: Path) -> None:
    data = tar_of({f"f{number}": os.urandom(3000) for number in range(5)})
    refused(data[: int(len(data) * part)], place)


def test_a_wrong_checksum_at_the_end_is_refused(place: Path) -> None:
    data = bytearray(tar_of({"a": "1", "b": "2"}))
    data[-8] ^= 1
    assert "decompressed" in refused(bytes(data), place)


def test_damage_between_two_members_is_no_end(place: Path) -> None:
    first, second = tar((member("a"), b"1"))[:1024], bytearray(tar((member("b"), b"1")))
    second[148:156] = b"00000000"
    assert "damaged" in refused(first + bytes(second), place)


def test_a_name_that_is_not_utf_8_is_refused(place: Path) -> None:
    header = bytearray(member("abc").tobuf(tarfile.USTAR_FORMAT))
    header[0:3] = b"a\xffc"
    header[148:156] = b"        "
    header[148:155] = b"%06o\0" % sum(header)
    assert "utf-8" in refused(bytes(header) + bytes(1024), place)


# --- zip


def zipped(files: dict[str, bytes], mode: int = 0o100644) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files.items():
            info = zipfile.ZipInfo(name)
            info.external_attr = mode << 16
            archive.writestr(info, content, zipfile.ZIP_DEFLATED)
    return out.getvalue()


def test_a_zip_archive_comes_out(place: Path) -> None:
    assert unpacked(zipped({"a": b"1", "b/c": b"2"}), place) == {"a": "1", "b/c": "2"}


def test_attacks_by_zip_are_refused(place: Path) -> None:
    assert "leads out" in refused(zipped({"../a": b"1", "b": b"1"}), place)
    assert "no regular file" in refused(zipped({"a": b"/etc"}, 0o120777), place.with_name("b"))


def test_a_zip_bomb_is_refused(place: Path) -> None:
    assert "more than" in refused(zipped({"a": bytes(8 << 20)}), place, ArchiveLimits(size=1 << 20))


# --- while it goes on


def test_it_can_be_stopped(place: Path) -> None:
    watch = Watch(lambda done, total: watch.stop() if done > 1 << 20 else None)
    with pytest.raises(CopyStopped):
        unpack(io.BytesIO(tar_of({"a": os.urandom(8 << 20)})), place, watch=watch)
    assert (place / "a").stat().st_size < 2 << 20


def test_it_stops_before_the_volume_is_full(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = os.statvfs(place.parent)
    values = list(real)
    values[4] = 0  # blocks that are available
    monkeypatch.setattr(os, "statvfs", lambda path: os.statvfs_result(values))
    with pytest.raises(NoSpace):
        unpack(io.BytesIO(tar_of({"a": "1"})), place)


def test_memory_does_not_grow_with_the_archive() -> None:
    class Endless:
        """Zeros as a tar archive sees them: one member after the other."""

        def __init__(self) -> None:
            self.header = member("f", size=1 << 20).tobuf()
            self.left = b""

        def read(self, size: int = -1) -> bytes:
            if not self.left:
                self.left = self.header + bytes(1 << 20)
            data, self.left = self.left[:size], self.left[size:]
            return data

        def seek(self, position: int, whence: int = 0) -> int:
            return 0

    def pieces() -> Iterator[int]:
        file: IO[bytes] = Endless()  # type: ignore[assignment]
        reader = TarReader(file, 64 << 20)
        for found in reader:
            yield from (len(piece) for piece in reader.data(found))

    with pytest.raises(BadArchive):
        assert max(pieces()) <= 1 << 16
