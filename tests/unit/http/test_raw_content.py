"""Content that goes out as it is: ranges of it, conditions on them, files that are not what they were."""

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from svc.errors import ClientError, ServerError
from svc.http.raw_content import blob_response, parse_range, raw_response
from svc.messages import HeaderBlock, Request, Response
from svc.static.ranges import parse_ranges
from svc.store.blobs import Blob, BlobFiles, create_blob, save_now

TEXT = b"0123456789" * 1000
ETAG, MODIFIED = '"abc"', "Thu, 01 Jan 2026 00:00:00 GMT"
VALIDATORS = [("ETag", ETAG), ("Last-Modified", MODIFIED)]


@pytest.fixture
def files(tmp_path: Path) -> Iterator[BlobFiles]:
    opened = BlobFiles(b"identity", "data", (tmp_path,))
    opened.open_references()
    yield opened
    opened.close()


@pytest.fixture(params=["bytes", "held", "filed"])
def content(request: pytest.FixtureRequest, files: BlobFiles) -> bytes | Blob:
    if request.param == "bytes":
        return TEXT
    if request.param == "held":
        return Blob(TEXT, "image/png")
    blob = create_blob(TEXT, type="image/png")
    save_now(blob, files)
    return blob


def ask(content: bytes | Blob, method: str = "GET", content_type: str | None = None, **fields: str) -> Response:
    block = HeaderBlock([(name.replace("_", "-"), value) for name, value in fields.items()])
    return raw_response(Request(method, "/T/1.a", block), content_type, content, list(VALIDATORS))


def body_of(response: Response) -> bytes:
    body: Any = response.body
    return body if isinstance(body, bytes) else b"".join(body)


def test_the_whole(content: bytes | Blob) -> None:
    response = ask(content)
    assert response.status == 200
    assert body_of(response) == TEXT
    fields = dict(response.pairs)
    assert fields["Content-Type"] == ("application/octet-stream" if isinstance(content, bytes) else "image/png")
    assert fields["Accept-Ranges"] == "bytes"
    assert fields["X-Content-Type-Options"] == "nosniff"
    assert fields["Vary"] == "Accept-Encoding"
    assert fields["ETag"] == ETAG
    assert fields.get("Content-Length") in (None, "10000")
    assert isinstance(response.body, bytes) or fields["Content-Length"] == "10000"


@pytest.mark.parametrize(
    ("field", "start", "end"),
    [
        ("bytes=0-0", 0, 1),
        ("bytes=10-19", 10, 20),
        ("bytes=9990-", 9990, 10000),
        ("bytes=9990-20000", 9990, 10000),
        ("bytes=-7", 9993, 10000),
        ("bytes=-20000", 0, 10000),
        ("Bytes= 5-6 ", 5, 7),
        ("bytes=0-", 0, 10000),
    ],
)
def test_a_range(content: bytes | Blob, field: str, start: int, end: int) -> None:
    response = ask(content, range=field)
    assert response.status == 206
    assert body_of(response) == TEXT[start:end]
    assert dict(response.pairs)["Content-Range"] == f"bytes {start}-{end - 1}/10000"


@pytest.mark.parametrize("field", ["bytes=10000-", "bytes=10000-10001", "bytes=-0", "bytes=999999999999999999-"])
def test_a_range_behind_the_end(content: bytes | Blob, field: str) -> None:
    with pytest.raises(ClientError) as caught:
        ask(content, range=field)
    assert caught.value.status_code == 416
    assert caught.value.headers == (("Content-Range", "bytes */10000"),)


@pytest.mark.parametrize(
    "field",
    [
        *("bytes=0-1,4-5", "bytes=0-1,", "bytes=5-4", "bytes=-", "bytes=", "bytes", "lines=0-1", "bytes=a-b", "bytes=1", "bytes=--1"),
        *("bytes=+1-2", "bytes=" + "9" * 5000 + "-"),
    ],
    ids=range(12),
)
def test_what_is_no_single_range_is_ignored(content: bytes | Blob, field: str) -> None:
    response = ask(content, range=field)
    assert (response.status, body_of(response)) == (200, TEXT)


@pytest.mark.parametrize(
    ("condition", "applies"),
    [
        (ETAG, True),
        (f" {ETAG} ", True),
        ('"other"', False),
        (f"W/{ETAG}", False),
        (MODIFIED, True),
        ("Thu, 01 Jan 2026 00:00:01 GMT", False),
        ("Wed, 31 Dec 2025 23:59:59 GMT", False),
        ("nonsense", False),
        ("", False),
    ],
)
def test_if_range(content: bytes | Blob, condition: str, applies: bool) -> None:
    response = ask(content, range="bytes=0-4", if_range=condition)
    assert response.status == (206 if applies else 200)
    assert body_of(response) == (TEXT[:5] if applies else TEXT)


def test_a_range_is_for_get_only(content: bytes | Blob) -> None:
    response = ask(content, "HEAD", range="bytes=0-4")
    assert response.status == 200
    assert dict(response.pairs).get("Content-Length", "10000") == "10000"


def test_head_does_not_open_the_file(files: BlobFiles) -> None:
    blob = create_blob(TEXT)
    save_now(blob, files)
    files.remove(blob.number or 0)
    response = ask(blob, "HEAD")
    assert (response.status, dict(response.pairs)["Content-Length"]) == (200, "10000")
    with pytest.raises(ServerError):
        ask(blob)


def test_empty_content() -> None:
    assert ask(b"").body == b""
    assert ask(b"", range="bytes=-5").status == 200
    with pytest.raises(ClientError):
        ask(b"", range="bytes=0-")


def test_a_file_is_read_in_pieces_of_64_kib_at_most(files: BlobFiles) -> None:
    blob = create_blob(TEXT * 20)
    save_now(blob, files)
    pieces = list(ask(blob).body)  # type: ignore[arg-type]
    assert b"".join(pieces) == TEXT * 20
    assert max(map(len, pieces)) <= 64 * 1024


def test_what_is_still_arriving_has_no_length_and_no_ranges(files: BlobFiles) -> None:
    file = files.create()
    blob = Blob(None, "video/mp4")
    blob.move_into(files, file, None)
    files.arriving[file.number] = file
    response = ask(blob, range="bytes=0-1")
    assert response.status == 200
    assert hasattr(response.body, "__aiter__")
    assert not {"Content-Length", "Accept-Ranges"} & dict(response.pairs).keys()
    head = ask(blob, "HEAD")
    assert list(head.body) == []  # type: ignore[arg-type]


def test_the_charset_of_plain_text() -> None:
    assert dict(ask(create_blob("é")).pairs)["Content-Type"] == "text/plain; charset=utf-8"
    assert dict(ask(b"x", content_type="text/html; charset=latin-1").pairs)["Content-Type"] == "text/html; charset=latin-1"


@pytest.mark.parametrize("end", [2**31 - 1, 2**53 - 1, 2**63 - 1, 2**64 - 1])
def test_a_range_to_the_largest_number_of_a_client(end: int) -> None:
    """As .NET and Java send "up to the end"."""
    response = ask(b"0123456789", range=f"bytes=4-{end}")
    assert (response.status, body_of(response), dict(response.pairs)["Content-Range"]) == (206, b"456789", "bytes 4-9/10")
    assert ask(b"0123456789", range=f"bytes=-{end}").status == 206
    assert parse_ranges(f"bytes=4-{end}", 10) == [(4, 10)]


@pytest.mark.parametrize("method", ["GET", "POST"])
@pytest.mark.parametrize("status", [200, 201])
def test_a_handler_answers_with_a_blob(files: BlobFiles, method: str, status: int) -> None:
    for blob in (create_blob(b"small", type="image/png"), create_blob(TEXT, type="image/png")):
        save_now(blob, files)
        request = Request(method, "/T/1", HeaderBlock([("range", "bytes=0-1")]))
        response = blob_response(request, Response(blob, status, {"X-Own": "1"}), blob)  # type: ignore[arg-type]
        fields = dict(response.pairs)
        assert (fields["Content-Type"], fields["X-Own"]) == ("image/png", "1")
        if method == "GET" and status == 200:
            assert (response.status, body_of(response)) == (206, blob.read()[:2])
        else:
            body: Any = response.body
            assert response.status == status
            assert (body if isinstance(body, bytes) else asyncio.run(collect(body))) == blob.read()
        named = blob_response(request, Response(blob, status, {"content-type": "text/x", "Content-Length": "9"}), blob)  # type: ignore[arg-type]
        assert [value for name, value in named.pairs if name.lower() == "content-type"] == ["text/x"]


async def collect(pieces: Any) -> bytes:
    return b"".join([piece async for piece in pieces])


@pytest.mark.parametrize("size", [0, 1, 5])
def test_every_range_of_a_short_content(size: int) -> None:
    """Beside the definition of RFC 9110 §14.1.2."""
    for first in [None, *range(7)]:
        for last in [None, *range(7)]:
            field = f"bytes={'' if first is None else first}-{'' if last is None else last}"
            found = parse_range(field, size)
            if first is None and last is None:
                assert found is None
            elif first is None:
                assert last is not None
                assert found == (None if last and not size else (max(size - last, 0), size)), field
            elif last is not None and last < first:
                assert found is None
            else:
                wanted = [n for n in range(size) if n >= first and (last is None or n <= last)]
                assert found is not None
                assert list(range(*found)) == wanted, field
