"""Answers with files: representations, conditions, ranges, changes on the disk."""

from __future__ import annotations

import gzip
import os
from pathlib import Path

import brotli
import pytest
import zstandard

from svc.clock import FakeClock
from svc.http.compression import MAX_AT_ONCE
from svc.http.conditional import http_date
from svc.static.listener import SMALL
from tests.support.leaks import open_files
from tests.support.static_files import LATE, OLD, Site, is_file

TEXT = b"".join(b"line %d of a text that repeats itself\n" % n for n in range(2000))  # about 80 KB
SHORT = TEXT[:5000]
LARGE = os.urandom(SMALL * 3 + 17)
LONG = TEXT * 5
DECODE = {
    "br": brotli.decompress,
    "gzip": gzip.decompress,
    "zstd": lambda data: zstandard.ZstdDecompressor().decompressobj().decompress(data),
}


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return Site(
        tmp_path,
        {
            "web/short.txt": SHORT,
            "web/text.txt": TEXT,
            "web/long.txt": LONG,
            "web/large.bin": LARGE,
            "web/small.png": SHORT,
            "web/empty.txt": b"",
            "web/tiny.txt": b"hi",
        },
    )


@pytest.fixture(autouse=True)
def nothing_stays_open(tmp_path: Path) -> object:
    yield
    assert not [target for target in open_files(os.getpid()) if target.startswith(f"{tmp_path}/")]


CONTENTS = {
    "/short.txt": SHORT,
    "/text.txt": TEXT,
    "/long.txt": LONG,
    "/large.bin": LARGE,
    "/small.png": SHORT,
    "/empty.txt": b"",
    "/tiny.txt": b"hi",
}


@pytest.mark.parametrize("target", CONTENTS)
def test_a_whole_file(site: Site, target: str) -> None:
    for _ in range(3):
        status, fields, body = site.get(target)
        assert (status, body) == (200, CONTENTS[target])
        assert fields["last-modified"] == http_date(int((site.directory / "web" / target[1:]).stat().st_ctime))
        assert fields["etag"].startswith('"')
        assert (fields["accept-ranges"], fields["cache-control"], fields["x-content-type-options"]) == ("bytes", "no-cache", "nosniff")
        assert ("vary" in fields) is target.endswith(".txt")
        head, head_fields, nothing = site.get(target, "HEAD")
        assert (head, nothing) == (200, b"")
        assert head_fields == fields | {"content-length": str(len(body))}


def test_small_files_are_answered_from_memory_and_large_ones_from_the_disk(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    site.get("/short.txt")
    assert is_file(site.ask("/large.bin"))
    monkeypatch.setattr(os, "open", None)
    assert site.get("/short.txt")[2] == SHORT
    assert site.get("/short.txt", if_none_match="*")[0] == 304


@pytest.mark.parametrize("coding", DECODE)
@pytest.mark.parametrize("target", ["/short.txt", "/text.txt", "/long.txt"])
def test_text_is_compressed(site: Site, target: str, coding: str) -> None:
    plain = site.get(target)[1]["etag"]
    for _ in range(2):
        status, fields, body = site.get(target, accept_encoding=coding)
        assert (status, fields["content-encoding"], fields["vary"]) == (200, coding, "Accept-Encoding")
        assert fields["etag"] == f'{plain[:-1]}-{coding}"'
        assert "accept-ranges" not in fields and "content-length" not in fields
        assert len(body) < len(CONTENTS[target])
        assert DECODE[coding](body) == CONTENTS[target]  # type: ignore[operator]
        assert site.get(target, accept_encoding=coding, if_none_match=fields["etag"])[0] == 304
        assert site.get(target, if_none_match=fields["etag"])[0] == 200
        head = site.get(target, "HEAD", accept_encoding=coding)
        assert {name: value for name, value in head[1].items() if name != "content-length"} == fields


def test_what_was_compressed_once_is_kept(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    first = site.get("/text.txt", accept_encoding="br")
    monkeypatch.setattr(brotli, "compress", None)
    assert site.get("/text.txt", accept_encoding="br") == first
    assert len(LONG) > MAX_AT_ONCE, "it is compressed while it is sent, by another function"


@pytest.mark.parametrize("target", ["/small.png", "/large.bin", "/tiny.txt", "/empty.txt"])
def test_what_would_not_become_shorter_stays(site: Site, target: str) -> None:
    status, fields, body = site.get(target, accept_encoding="br, gzip")
    assert (status, body) == (200, CONTENTS[target])
    assert "content-encoding" not in fields


def test_a_client_that_refuses_files_as_they_are(site: Site) -> None:
    assert site.get("/large.bin", accept_encoding="identity;q=0, gzip")[0] == 406
    assert site.get("/short.txt", accept_encoding="identity;q=0")[0] == 406
    assert gzip.decompress(site.get("/tiny.txt", accept_encoding="identity;q=0, gzip")[2]) == b"hi"


def test_without_compression_files_stay_as_they_are(tmp_path: Path) -> None:
    site = Site(tmp_path, {"web/a.txt": SHORT, "web/b.txt": SHORT, "web/b.txt.gz": gzip.compress(SHORT)}, compression_threshold=0)
    assert site.get("/a.txt", accept_encoding="gzip")[2] == SHORT
    assert site.get("/b.txt", accept_encoding="gzip")[1]["content-encoding"] == "gzip"


# --- compressed neighbours ---------------------------------------------------------------------------------------------------------


@pytest.fixture
def neighbours(tmp_path: Path) -> Site:
    return Site(
        tmp_path,
        {
            "web/app.js": SHORT,
            "web/app.js.br": b"BR",
            "web/app.js.gz": b"GZ",
            "web/app.js.zst": b"ZST",
            "web/image.png": b"png",
            "web/image.png.gz": b"no",
        },
    )


@pytest.mark.parametrize(
    ("accepted", "coding", "body"),
    [
        ("gzip, deflate, br, zstd", "br", b"BR"),
        ("zstd, gzip", "zstd", b"ZST"),
        ("gzip", "gzip", b"GZ"),
        ("br;q=0.5, gzip", "gzip", b"GZ"),
        ("*", "br", b"BR"),
        ("identity", None, SHORT),
        ("br;q=0", None, SHORT),
        ("identity, br;q=0.5", None, SHORT),
    ],
)
def test_the_neighbour_that_the_client_prefers(neighbours: Site, accepted: str, coding: str | None, body: bytes) -> None:
    for _ in range(2):
        status, fields, found = neighbours.get("/app.js", accept_encoding=accepted)
        assert (status, found, fields.get("content-encoding")) == (200, body, coding)
        assert (fields["content-type"], fields["vary"]) == ("text/javascript; charset=utf-8", "Accept-Encoding")
        assert neighbours.get("/app.js", accept_encoding=accepted, if_none_match=fields["etag"])[0] == 304


def test_a_neighbour_has_parts_of_its_own(neighbours: Site) -> None:
    status, fields, body = neighbours.get("/app.js", accept_encoding="br", range="bytes=1-")
    assert (status, body, fields["content-range"], fields["content-encoding"]) == (206, b"R", "bytes 1-1/2", "br")


def test_a_neighbour_by_its_own_address_is_a_file(neighbours: Site) -> None:
    neighbours.get("/app.js", accept_encoding="br")
    status, fields, body = neighbours.get("/app.js.br", accept_encoding="br")
    assert (status, body, fields["content-type"]) == (200, b"BR", "application/octet-stream")
    assert "content-encoding" not in fields


def test_types_that_are_compressed_have_no_neighbours(neighbours: Site) -> None:
    assert neighbours.get("/image.png", accept_encoding="gzip")[2] == b"png"


def test_an_older_neighbour_is_not_sent(neighbours: Site) -> None:
    neighbours.write("web/app.js", TEXT[:4000], at=OLD + 60)
    body = neighbours.get("/app.js", accept_encoding="br")[2]
    assert brotli.decompress(body) == TEXT[:4000]
    neighbours.write("web/app.js.br", b"NEW", at=OLD + 61)
    assert neighbours.get("/app.js", accept_encoding="br")[2] == b"NEW"


def test_a_large_neighbour_is_sent_from_its_file(tmp_path: Path) -> None:
    site = Site(tmp_path, {"web/app.js": LONG, "web/app.js.br": LARGE})
    assert is_file(site.ask("/app.js", accept_encoding="br"))
    assert site.get("/app.js", accept_encoding="br")[2] == LARGE
    assert site.get("/app.js", "HEAD", accept_encoding="br")[1]["content-length"] == str(len(LARGE))
    assert site.get("/app.js", accept_encoding="br", range="bytes=3-8,90000-90005")[0] == 206
    assert site.get("/app.js", accept_encoding="br", if_none_match="*")[0] == 304
    (tmp_path / "web" / "app.js.br").unlink()
    assert brotli.decompress(site.get("/app.js", accept_encoding="br")[2]) == LONG


def test_a_neighbour_that_is_not_of_the_set_is_not_sent(tmp_path: Path) -> None:
    (tmp_path / "secret").write_bytes(b"secret")
    site = Site(tmp_path / "app", {"web/app.js": SHORT, "web/app.js.br": b"BR", "web/a.js": SHORT}, {"files": "web/*.js"})
    assert brotli.decompress(site.get("/app.js", accept_encoding="br")[2]) == SHORT
    site = Site(tmp_path / "app", {})
    (tmp_path / "app" / "web" / "a.js.br").symlink_to(tmp_path / "secret")
    assert brotli.decompress(site.get("/a.js", accept_encoding="br")[2]) == SHORT


# --- ranges --------------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("target", ["/short.txt", "/large.bin", "/long.txt"])
def test_one_range(site: Site, target: str) -> None:
    content = CONTENTS[target]
    size = len(content)
    for field, start, end in (("0-0", 0, 1), ("10-", 10, size), ("-7", size - 7, size), (f"{size - 2}-{size + 50}", size - 2, size)):
        status, fields, body = site.get(target, range=f"bytes={field}", accept_encoding="br")
        assert (status, body) == (206, content[start:end])
        assert fields["content-range"] == f"bytes {start}-{end - 1}/{size}"
        assert "content-encoding" not in fields


@pytest.mark.parametrize("target", ["/short.txt", "/large.bin"])
def test_several_ranges(site: Site, target: str) -> None:
    content = CONTENTS[target]
    status, fields, body = site.get(target, range="bytes=-5,0-9,3-20")
    assert status == 206
    boundary = fields["content-type"].partition("multipart/byteranges; boundary=")[2].encode()
    parts = body.split(b"\r\n--" + boundary)
    assert parts[0] == b"" and parts[3] == b"--\r\n"
    assert [part.partition(b"\r\n\r\n")[2] for part in parts[1:3]] == [content[:21], content[-5:]]
    assert "content-range" not in fields
    if "content-length" in fields:
        assert int(fields["content-length"]) == len(body)
    assert site.get(target, range="bytes=0-9,5-20,21-30")[1]["content-range"] == f"bytes 0-30/{len(content)}"


@pytest.mark.parametrize("target", ["/short.txt", "/large.bin", "/empty.txt"])
def test_a_range_behind_the_end(site: Site, target: str) -> None:
    size = len(CONTENTS[target])
    status, fields, _ = site.get(target, range=f"bytes={size}-")
    assert (status, fields["content-range"]) == (416, f"bytes */{size}")


def test_fields_that_are_ignored(site: Site) -> None:
    assert site.get("/short.txt", range="bytes=9-1")[0] == 200
    assert site.get("/short.txt", "HEAD", range="bytes=0-1")[0] == 200
    assert site.get("/short.txt", range="bytes=" + "0-0," * 33)[0] == 200


def test_a_part_of_another_version_is_the_whole(site: Site) -> None:
    etag = site.get("/short.txt")[1]["etag"]
    coded = site.get("/short.txt", accept_encoding="br")[1]["etag"]
    assert site.get("/short.txt", range="bytes=0-1", if_range=etag)[0] == 206
    assert site.get("/short.txt", range="bytes=0-1", if_range=coded, accept_encoding="br")[0] == 200
    assert site.get("/short.txt", range="bytes=0-1", if_range="W/" + etag)[0] == 200
    site.write("web/short.txt", TEXT[:100], at=OLD + 5)
    assert site.get("/short.txt", range="bytes=0-1", if_range=etag)[::2] == (200, TEXT[:100])


# --- conditions ----------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("target", ["/short.txt", "/large.bin"])
def test_conditions(site: Site, target: str) -> None:
    fields = site.get(target)[1]
    etag, modified = fields["etag"], fields["last-modified"]
    status, unchanged, body = site.get(target, if_none_match=etag)
    assert (status, body) == (304, b"")
    assert unchanged == {name: fields[name] for name in ("etag", "last-modified", "cache-control", "vary") if name in fields}
    assert site.get(target, "HEAD", if_none_match=etag)[0] == 304
    assert site.get(target, if_modified_since=modified)[0] == 304
    assert site.get(target, if_none_match='"other"', if_modified_since=modified)[0] == 200
    assert site.get(target, if_match=etag)[0] == 200
    assert site.get(target, if_match='"other"')[0] == 412
    assert site.get(target, if_unmodified_since="Mon, 29 Dec 2025 09:19:59 GMT")[0] == 412
    assert site.get(target, if_none_match=etag, range="bytes=0-1")[0] == 304


# --- changes on the disk ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("content", [b"other", LARGE[:-1], SHORT[::-1]], ids=["shorter", "large", "same size"])
def test_a_changed_file_counts_at_once(site: Site, content: bytes) -> None:
    before = site.get("/short.txt", accept_encoding="br")
    assert site.get("/short.txt")[2] == SHORT
    site.write("web/short.txt", content, at=OLD + 1)
    assert site.get("/short.txt")[2] == content
    assert site.get("/short.txt", if_none_match=before[1]["etag"], accept_encoding="br")[0] == 200


def test_a_file_with_the_time_of_the_one_it_replaces(site: Site) -> None:
    """As `cp -p` and `rsync -t` leave it: the inode and its own time are others."""
    assert site.get("/short.txt")[2] == SHORT
    site.write("web/new", SHORT[::-1]).rename(site.directory / "web" / "short.txt")
    assert site.get("/short.txt")[2] == SHORT[::-1]


@pytest.mark.parametrize("size", [5000, SMALL + 1])
@pytest.mark.parametrize("in_place", [False, True])
@pytest.mark.parametrize("coding", ["", "br"])
def test_a_file_of_another_content_has_another_tag_whatever_its_time_and_size(
    tmp_path: Path, size: int, in_place: bool, coding: str
) -> None:
    """As reproducible builds leave files: all of one time, and two versions may be of one size."""
    name = "web/app.js"
    Site(tmp_path, {name: b"a" * size})
    clock = FakeClock(wall=(tmp_path / name).stat().st_ctime)  # it has just been written, and may be once more in the same tick
    site = Site(tmp_path, {}, clock=clock)
    fields = site.get("/app.js", accept_encoding=coding)[1]
    clock.advance(0.001)
    new = site.write(name if in_place else "web/new", b"b" * size)
    if not in_place:
        new.rename(tmp_path / name)
    for _ in range(2):
        status, again, _ = site.get("/app.js", if_none_match=fields["etag"], accept_encoding=coding)
        assert status == 200 and again["etag"] != fields["etag"]
        part = site.get("/app.js", range="bytes=10-19", if_range=fields["etag"])
        assert (part[0], part[2]) == (200, b"b" * size)
        clock.advance(10)


@pytest.mark.parametrize("at", [6e9, 2e11])
def test_a_date_that_cannot_be_is_not_sent(site: Site, at: float) -> None:
    path = site.write("web/odd.txt", SHORT)
    try:
        os.utime(path, (at, at))
    except OSError:
        pytest.skip("a date that this file system does not have")
    status, fields, body = site.get("/odd.txt")
    assert (status, body) == (200, SHORT)
    assert "last-modified" not in fields
    assert site.get("/odd.txt", if_none_match=fields["etag"])[0] == 304
    assert site.get("/odd.txt", if_modified_since="Mon, 29 Dec 2025 09:20:00 GMT")[0] == 200


def test_a_file_system_that_gives_files_in_pieces(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = os.pread
    monkeypatch.setattr(os, "pread", lambda descriptor, size, offset: whole(descriptor, min(size, 1000), offset))
    for target, content in CONTENTS.items():
        assert site.get(target)[2] == content
        coded = site.get(target, accept_encoding="gzip")
        assert "content-encoding" not in coded[1] or gzip.decompress(coded[2]) == content


def test_what_is_read_of_a_file_that_is_being_written_is_not_kept(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = os.pread
    path = site.directory / "web" / "short.txt"

    def grow(descriptor: int, size: int, offset: int) -> bytes:
        found = whole(descriptor, size, offset)
        with path.open("ab") as file:
            file.write(b"+")
        return found

    monkeypatch.setattr(os, "pread", grow)
    assert site.get("/text.txt", accept_encoding="gzip")[0] == site.get("/short.txt", accept_encoding="gzip")[0] == 200
    assert not [key for key in site.cache._entries if key[1] == "web/short.txt"]
    status, fields, body = site.get("/short.txt")
    assert status == 200 and body.startswith(SHORT)
    tag = fields["etag"]
    monkeypatch.setattr(os, "pread", whole)
    assert site.get("/short.txt", if_none_match=tag)[2] == path.read_bytes()


def test_removed_and_new_files_count_at_once(site: Site) -> None:
    assert site.get("/short.txt")[0] == 200
    (site.directory / "web" / "short.txt").unlink()
    assert site.get("/short.txt")[0] == 0
    site.write("web/short.txt", "again")
    assert site.get("/short.txt")[2] == b"again"


def test_a_file_that_was_just_written_is_not_kept(tmp_path: Path) -> None:
    site = Site(tmp_path, {"web/a.txt": "first"})
    changed = (tmp_path / "web" / "a.txt").stat().st_ctime
    wall, LATE.wall = LATE.wall, lambda: changed + 1
    try:
        site.get("/a.txt")
        assert len(site.cache) == 0
    finally:
        LATE.wall = wall


def test_a_better_candidate_counts_at_once(tmp_path: Path) -> None:
    site = Site(tmp_path, {"web/page.html": "html"}, {"extensions": ["html"]})
    assert site.get("/page")[2] == site.get("/page")[2] == b"html"
    site.write("web/page", "bare")
    assert site.get("/page")[2] == b"bare"


def test_a_file_that_grows_and_shrinks_while_it_is_sent(site: Site) -> None:
    response = site.ask("/large.bin")
    assert response is not None
    with (site.directory / "web" / "large.bin").open("ab") as file:
        file.write(b"more")
    assert b"".join(response.body) == LARGE  # type: ignore[arg-type]


# --- nothing found -----------------------------------------------------------------------------------------------------------------------


def test_a_file_for_what_is_not_found(tmp_path: Path) -> None:
    files: dict[str, bytes | str] = {"web/404.html": TEXT[:3000], "web/a.txt": "a"}
    for name in ("404.html", "/404.html", "web/404.html", "./404.html"):
        site = Site(tmp_path, files, {"fallthrough": False, "notFound": name})
        status, fields, body = site.get("/none", if_none_match="*", range="bytes=0-1")
        assert (status, body, fields["content-type"]) == (404, TEXT[:3000], "text/html; charset=utf-8")
        assert not fields.keys() & {"etag", "last-modified", "accept-ranges"}
        assert site.get("/a.txt")[2] == b"a"
        assert brotli.decompress(site.get("/none", accept_encoding="br")[2]) == TEXT[:3000]
        assert site.get("/none", "HEAD")[0] == 404


def test_a_large_file_for_what_is_not_found(tmp_path: Path) -> None:
    site = Site(tmp_path, {"web/404.html": LONG}, {"fallthrough": False, "notFound": "404.html"})
    status, fields, body = site.get("/none")
    assert (status, body, fields["content-length"]) == (404, LONG, str(len(LONG)))
    assert gzip.decompress(site.get("/none", accept_encoding="gzip")[2]) == LONG


def test_a_page_for_all_addresses_is_answered_from_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    site = Site(tmp_path, {"web/index.html": SHORT}, {"fallthrough": False, "notFound": {"file": "index.html", "statusCode": 200}})
    site.get("/one", accept_encoding="br", accept="text/html")
    monkeypatch.setattr(os, "open", None)
    assert brotli.decompress(site.get("/two", accept_encoding="br", accept="text/html")[2]) == SHORT
    site.write("web/index.html", "other", at=OLD + 1)
    monkeypatch.undo()
    assert site.get("/two", accept="text/html")[2] == b"other"


def test_a_page_for_all_addresses(tmp_path: Path) -> None:
    site = Site(tmp_path, {"web/index.html": "page"}, {"fallthrough": False, "notFound": {"file": "index.html", "statusCode": 200}})
    status, fields, body = site.get("/any/where", accept="text/html,*/*;q=0.8")
    assert (status, body, fields["vary"]) == (200, b"page", "Accept-Encoding, Accept, Sec-Fetch-Dest")
    again = site.get("/else", accept="text/html", if_none_match=fields["etag"])
    assert (again[0], again[1]["vary"]) == (304, fields["vary"])


@pytest.mark.parametrize(
    ("fields", "status"),
    [
        ({"sec_fetch_dest": "document", "accept": "*/*"}, 200),
        ({"accept": "Text/HTML"}, 200),
        ({"sec_fetch_dest": "script", "accept": "*/*"}, 404),
        ({"sec_fetch_dest": "image", "accept": "image/avif,image/webp,*/*;q=0.8"}, 404),
        ({"accept": "application/json"}, 404),
        ({}, 404),
    ],
)
@pytest.mark.parametrize("method", ["GET", "HEAD"])
def test_a_page_for_all_addresses_answers_navigations_only(tmp_path: Path, method: str, fields: dict[str, str], status: int) -> None:
    """A script or a picture that is missing is missing: a page in its place would be cached as one."""
    site = Site(tmp_path, {"web/index.html": "page"}, {"fallthrough": False, "notFound": {"file": "index.html", "statusCode": 200}})
    found = site.get("/assets/gone.js", method, **fields)
    assert found[0] == status and found[1]["vary"].endswith("Accept, Sec-Fetch-Dest")
    assert site.get("/index.html", method, **fields)[0] == 200


def test_a_file_for_what_is_not_found_that_is_missing_itself(tmp_path: Path) -> None:
    (tmp_path / "secret.html").write_text("secret")
    for name in ("404.html", "secret.html", "web/../secret.html"):
        if ".." not in name:
            site = Site(tmp_path, {"web/a.txt": "a"}, {"fallthrough": False, "notFound": name})
            assert site.get("/none")[::2] == (404, b"File not found")


# --- memory ------------------------------------------------------------------------------------------------------------------------------


def test_what_is_kept_stays_within_its_memory(tmp_path: Path) -> None:
    site = Site(tmp_path, {f"web/{n}.txt": TEXT[:20_000] for n in range(50)}, memory=200_000)
    for n in range(50):
        assert site.get(f"/{n}.txt")[2] == TEXT[:20_000]
        assert site.get(f"/{n}.txt", accept_encoding="gzip")[0] == 200
        assert site.cache.used <= 200_000
    site.listener.close()
    assert site.cache.used == 0


def test_spellings_of_an_address_take_no_memory(site: Site) -> None:
    for n in range(3000):
        site.get(f"/short.txt?{n}")
        site.get(f"/%{ord('s'):02x}hort.txt")
    assert list(site.listener._hot) == ["/short.txt"]
