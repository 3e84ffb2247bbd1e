"""Which answers are compressed (spec: http §8; RFC 9110 §12.5.3)."""

from __future__ import annotations

import gzip
import random
from collections.abc import AsyncIterator, Iterator
from typing import Any

import brotli
import pytest
import zstandard

from svc.errors import NotAcceptable
from svc.http.compression import (
    MAX_AT_ONCE,
    MEMO_SIZE,
    VARY,
    Compression,
    choice_of,
    choose_coding,
    is_compressible,
    parse_accept_encoding,
)
from svc.http.encoders import AsyncCompressedBody, CompressedBody
from svc.messages import Feed, HeaderBlock, Request, Response

TEXT = b'{"name":"Keyboard","price":49.5,"brandId":"b1","id":"42"}' * 100
DECODE: dict[str, Any] = {"br": brotli.decompress, "gzip": gzip.decompress, "zstd": zstandard.decompress}
compression = Compression(1200)


def ask(accept_encoding: str | None = None, method: str = "GET") -> Request:
    return Request(method, "/Product/", HeaderBlock([] if accept_encoding is None else [("accept-encoding", accept_encoding)]))


def answer(body: Any = TEXT, status: int = 200, **fields: str) -> Response:
    return Response(body, status, {"Content-Type": "application/json", **{name.replace("_", "-"): v for name, v in fields.items()}})


def coding_of(response: Response) -> str | None:
    return response.headers.get("Content-Encoding")


# --- what Accept-Encoding asks for -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "coding", "identity"),
    [
        (None, None, True),
        ("", None, True),
        (" , ,", None, True),
        ("gzip", "gzip", True),
        ("x-gzip", "gzip", True),
        ("GZip;Q=0.5", "gzip", True),
        ("gzip, deflate, br, zstd", "br", True),  # what browsers send
        ("gzip, zstd", "zstd", True),
        ("gzip;q=1.0, br;q=0.9", "gzip", True),
        ("gzip ; q=0.3 , br ; q=0.4", "br", True),
        ("br;q=0, gzip;q=0", None, True),
        ("deflate, compress", None, True),
        ("*", "br", True),
        ("*;q=0.5, br;q=0", "gzip", True),  # zstd only if it is named
        ("gzip;q=0.5, *", "br", True),
        ("zstd, *;q=0.5", "zstd", True),
        ("*;q=0", None, False),
        ("gzip, *;q=0", "gzip", False),
        ("identity, *;q=0", None, True),
        ("identity;q=0", None, False),
        ("identity;q=0, deflate", None, False),
        ("identity;q=0, *", "br", False),
        ("identity;q=0.000, zstd;q=0.001", "zstd", False),
        ("gzip;q=0.5, identity", None, True),  # identity is liked better
        ("gzip;q=0.5, identity;q=0.5", "gzip", True),
        ("identity;q=0.2, br;q=0.1, gzip;q=0.3", "gzip", True),
        ("gzip;q=nan, br;q=0.5", "gzip", True),
        ("gzip;q=0.1234, br;q=0.5", "gzip", True),
        ("gzip;level=9", "gzip", True),
        ("gzip, gzip;q=0", None, True),
    ],
)
def test_the_choice(text: str | None, coding: str | None, identity: bool) -> None:
    choice = choose_coding(text)
    assert (choice.coding and choice.coding.name, choice.identity) == (coding, identity)


@pytest.mark.parametrize(
    ("text", "accepted"),
    [
        (None, []),
        ("gzip, deflate, br, zstd", ["br", "zstd", "gzip"]),
        ("gzip, br;q=0.9", ["gzip", "br"]),
        ("*", ["br", "gzip"]),
        ("identity, gzip;q=0.5", []),
        ("identity;q=0.5, gzip;q=0.5, br;q=0.4, zstd;q=0.6", ["zstd", "gzip"]),
        ("gzip, *;q=0", ["gzip"]),
    ],
)
def test_all_codings_that_are_better_than_none(text: str | None, accepted: list[str]) -> None:
    assert [coding.name for coding in choose_coding(text).accepted] == accepted


def test_qualities_are_read_strictly() -> None:
    assert parse_accept_encoding("a;q=1.000, b;q=0., c;q=2, d;q=-1, e;q=1e-1, f;q=") == {"a": 1, "b": 0, "c": 1, "d": 1, "e": 1, "f": 1}


def test_choices_are_remembered_by_their_text_but_not_without_bound() -> None:
    assert choice_of(ask("gzip, br;q=0.1").block) is choice_of(ask("gzip, br;q=0.1").block)
    first = ask("gzip, br;q=0.1").block
    assert choice_of(first) is choice_of(first) is first.memo["coding"]
    from svc.http import compression as module

    for number in range(3 * MEMO_SIZE):
        choice_of(ask(f"gzip;v={number}").block)
        is_compressible(f"text/x{number}")
    choice_of(ask("gzip;v=" + "x" * 1000).block)
    is_compressible("text/" + "x" * 1000)
    assert len(module._choices) <= MEMO_SIZE
    assert len(module._types) <= MEMO_SIZE
    assert max(len(text or "") for text in (*module._choices, *module._types)) < 1000


# --- bodies known in full --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("coding", ["br", "gzip", "zstd"])
def test_a_long_body_is_compressed(coding: str) -> None:
    response = compression.apply(ask(coding), answer(ETag='"Qnm3baqHtAA"', Content_Length=str(len(TEXT)), Accept_Ranges="bytes"))
    assert DECODE[coding](response.body) == TEXT
    assert dict(response.pairs) == {
        "Content-Type": "application/json",
        "ETag": f'"Qnm3baqHtAA-{coding}"',
        "Vary": "Accept-Encoding",
        "Content-Encoding": coding,
    }


def test_a_weak_tag_says_nothing_of_the_bytes() -> None:
    assert dict(compression.apply(ask("gzip"), answer(ETag='W/"a"')).pairs)["ETag"] == 'W/"a"'


def test_what_is_not_coded_keeps_its_tag() -> None:
    assert dict(compression.apply(ask("gzip"), answer(b"short", ETag='"a"')).pairs)["ETag"] == '"a"'
    partial = compression.apply(
        ask("gzip"), Response(TEXT, 206, pairs=[("Content-Type", "text/plain"), ("ETag", '"a"'), ("Content-Range", "bytes 0-9/99")])
    )
    assert dict(partial.pairs)["ETag"] == '"a"'


def test_the_answer_to_head_has_the_fields_of_the_answer_to_get() -> None:
    get, head = (compression.apply(ask("br", method), answer()) for method in ("GET", "HEAD"))
    assert head.pairs == get.pairs
    assert head.body == get.body  # the connection tells its length and does not send it


def test_the_threshold() -> None:
    assert coding_of(compression.apply(ask("br"), answer(b"a" * 1200))) is None
    assert coding_of(compression.apply(ask("br"), answer(b"a" * 1201))) == "br"
    for off in (Compression(0), Compression(10**9)):
        assert coding_of(off.apply(ask("br"), answer())) is None
    assert coding_of(Compression(0).apply(ask("br"), answer(iter((TEXT,))))) is None


def test_text_is_measured_in_bytes() -> None:
    response = compression.apply(ask("gzip"), answer("ä" * 700))
    assert gzip.decompress(response.body).decode() == "ä" * 700  # type: ignore[arg-type]
    assert compression.apply(ask("gzip"), answer("ä" * 600)).body == ("ä" * 600).encode()


def test_without_a_wish_nothing_changes_but_vary() -> None:
    for accept in (None, "", "identity", "deflate"):
        response = compression.apply(ask(accept), answer())
        assert response.body is TEXT
        assert dict(response.pairs) == {"Content-Type": "application/json", "Vary": "Accept-Encoding"}


def test_what_does_not_become_shorter_stays() -> None:
    noise = random.Random(1).randbytes(5000)
    assert compression.apply(ask("zstd"), answer(noise)).body is noise
    assert coding_of(compression.apply(ask("zstd, identity;q=0"), answer(noise))) == "zstd"


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (None, "Accept-Encoding"),
        ("Origin", "Origin, Accept-Encoding"),
        ("Accept, Accept-Encoding", "Accept, Accept-Encoding"),
        ("Origin,accept-ENCODING", "Origin,accept-ENCODING"),
        ("X-Accept-Encoding", "X-Accept-Encoding, Accept-Encoding"),
        ("*", "*"),
    ],
)
def test_vary(before: str | None, after: str) -> None:
    for accept in ("br", None):
        response = answer() if before is None else answer(vary=before)
        assert compression.apply(ask(accept), response).headers.get("Vary") == after
    ours = Response(TEXT, pairs=[("Content-Type", "application/json"), VARY])
    assert [pair for pair in compression.apply(ask("br"), ours).pairs if pair[0] == "Vary"] == [VARY]


# --- what is left alone ----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("status", [204, 206, 304])
def test_answers_without_a_body_of_their_own(status: int) -> None:
    for body in (None, b"", "", TEXT):
        response = compression.apply(ask("br"), answer(body, status))
        assert (coding_of(response), response.headers.get("Vary")) == (None, None)


@pytest.mark.parametrize(
    "fields",
    [
        {"Content_Encoding": "gzip"},
        {"Content_Encoding": "identity"},
        {"Cache_Control": "private, No-Transform"},
        {"Content_Range": "bytes 0-9/10"},
        {"Content_Digest": "sha-256=:AA==:"},
    ],
)
def test_the_maker_of_an_answer_may_decide(fields: dict[str, str]) -> None:
    for accept in ("br", "br, identity;q=0"):
        response = answer(**fields)
        before = list(response.pairs)
        assert compression.apply(ask(accept), response).pairs == before
        assert response.body is TEXT


@pytest.mark.parametrize(
    ("content_type", "expected"),
    [
        ("application/json", True),
        ("APPLICATION/CBOR", True),
        ("text/csv; charset=utf-8", True),
        ("application/octet-stream", True),
        ("image/svg+xml", True),
        ("Image/SVG+XML; charset=utf-8", True),
        ("image/png", False),
        ("image/svg", False),
        ("audio/ogg", False),
        ("video/mp4", False),
        ("text/event-stream", False),
        ("text/event-stream;charset=utf-8", False),
        ("application/zip", False),
        ("application/gzip", False),
        ("application/x-gzip", False),
        ("application/x-zip-compressed", False),
        ("application/epub+zip", False),
        ("application/zstd", False),
        ("application/x-xz", False),
        ("application/vnd.openxmlformats-officedocument.spreadsheetml.sheet", False),
        ("font/woff2", False),
        ("font/ttf", True),
        ("application/x-zipper", True),
        ("", True),
    ],
)
def test_types(content_type: str, expected: bool) -> None:
    assert is_compressible(content_type) is expected
    assert is_compressible(content_type) is expected
    response = compression.apply(ask("br"), Response(TEXT, pairs=[("content-type", content_type)]))
    assert (coding_of(response), response.headers.get("Vary")) == (("br", "Accept-Encoding") if expected else (None, None))


def test_the_handler_of_a_type_may_forbid_it() -> None:
    response = compression.apply(ask("br"), answer(), compressible=False)
    assert response.body is TEXT
    assert coding_of(response) is None


# --- identity;q=0 ----------------------------------------------------------------------------------------------------------------------


def test_a_client_that_refuses_identity_gets_short_bodies_coded_too() -> None:
    response = compression.apply(ask("identity;q=0, gzip"), answer(b'"42"'))
    assert gzip.decompress(response.body) == b'"42"'  # type: ignore[arg-type]
    for nothing in (None, b""):
        assert coding_of(compression.apply(ask("identity;q=0, gzip"), answer(nothing))) is None


def test_406_if_nothing_else_is_left() -> None:
    assert compression.refusal(ask("identity;q=0, deflate").block) == (
        "No acceptable content coding; supported besides identity are br, zstd, gzip"
    )
    assert compression.refusal(ask("*;q=0").block)
    assert compression.refusal(ask("identity;q=0, br").block) is None
    assert Compression(0).refusal(ask("identity;q=0, br").block)
    for accept in (None, "", "br", "*"):
        assert compression.refusal(ask(accept).block) is None
        assert Compression(0).refusal(ask(accept).block) is None
    for one, accept, response in [
        (compression, "*;q=0", answer()),
        (compression, "*;q=0", answer(b"short")),
        (compression, "br, identity;q=0", Response(TEXT, pairs=[("Content-Type", "image/png")])),
        (Compression(0), "br, identity;q=0", answer()),
    ]:
        with pytest.raises(NotAcceptable):
            one.apply(ask(accept), response)
    with pytest.raises(NotAcceptable):
        compression.apply(ask("br, identity;q=0"), answer(), compressible=False)


def test_threshold_for_tells_when_to_ask() -> None:
    assert compression.threshold_for(ask("br").block) == compression.threshold == 1200
    assert compression.threshold_for(ask("br, identity;q=0").block) == 0
    assert compression.threshold_for(ask().block) > 2**60
    assert Compression(0).threshold_for(ask("br").block) > 2**60


# --- streams ---------------------------------------------------------------------------------------------------------------------------


def test_a_stream_is_compressed_whatever_its_length() -> None:
    response = compression.apply(ask("br"), answer(iter((b"[", b"]")), Content_Length="2"))
    assert type(response.body) is CompressedBody
    assert brotli.decompress(b"".join(response.body)) == b"[]"
    assert (coding_of(response), response.headers.get("Content-Length"), response.headers.get("Vary")) == ("br", None, "Accept-Encoding")


def test_an_iterable_is_a_stream_too() -> None:
    response = compression.apply(ask("gzip"), answer([b"[", b"]"]))
    assert gzip.decompress(b"".join(response.body)) == b"[]"  # type: ignore[arg-type]


def test_an_asynchronous_stream() -> None:
    async def rows() -> AsyncIterator[bytes]:
        yield b"[]"

    assert type(compression.apply(ask("gzip"), answer(rows())).body) is AsyncCompressedBody


def test_a_feed_is_sent_as_it_is() -> None:
    feed = Feed()
    response = Compression(100).apply(ask("gzip"), answer(feed))
    assert response.body is feed and coding_of(response) is None


def test_a_stream_nobody_wants_compressed_is_not_touched() -> None:
    def rows() -> Iterator[bytes]:
        yield b"[]"

    stream = rows()
    for request in (ask(), ask("identity")):
        response = compression.apply(request, answer(stream, Content_Length="2"))
        assert response.body is stream
        assert response.headers.get("Content-Length") == "2"


@pytest.mark.parametrize("coding", ["br", "gzip", "zstd"])
def test_a_very_long_body_becomes_a_stream(coding: str) -> None:
    body = TEXT * (MAX_AT_ONCE // len(TEXT) + 1) * 3
    response = compression.apply(ask(coding), answer(body, Content_Length=str(len(body))))
    assert response.headers.get("Content-Length") is None
    pieces = list(response.body)  # type: ignore[arg-type]
    assert len(pieces) > 6
    decompress = zstandard.ZstdDecompressor().decompressobj().decompress if coding == "zstd" else DECODE[coding]
    assert decompress(b"".join(pieces)) == body
