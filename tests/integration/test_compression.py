"""Content codings, spoken with clients that are not ours (spec: http §8)."""

from __future__ import annotations

import gzip
import json
import shutil
import subprocess
import zlib
from collections.abc import Callable
from typing import Any

import brotli
import httpx
import pytest
import zstandard

from tests.integration.conftest import PASSWORD, Process

pytestmark = pytest.mark.programs

ROWS = [{"id": f"compressed-{n:05}", "name": f"Item {n * 7919 % 5000}", "price": n + 0.5, "stock": n % 7} for n in range(3000)]
CODINGS = pytest.mark.parametrize("coding", ["br", "gzip", "zstd"])
ALL = "/Product/?id=sw=compressed-"
SOME = "/Product/?id=sw=compressed-001&sort(id)&limit(100)"


@pytest.fixture(scope="module", autouse=True)
def rows(server: Process) -> None:
    with server.client() as http:
        assert http.put("/Product/", json=ROWS).status_code == 204


@CODINGS
def test_httpx_reads_a_streamed_collection(client: httpx.Client, coding: str) -> None:
    response = client.get(ALL, headers={"Accept-Encoding": coding})
    assert response.headers["Content-Encoding"] == coding
    assert "Content-Length" not in response.headers
    assert "Accept-Encoding" in response.headers["Vary"]
    assert sorted(row["id"] for row in response.json()) == [row["id"] for row in ROWS]
    assert response.num_bytes_downloaded < len(response.content) / 3


@CODINGS
def test_httpx_reads_a_whole_body(client: httpx.Client, coding: str) -> None:
    plain = client.get(SOME, headers={"Accept-Encoding": "identity"})
    response = client.get(SOME, headers={"Accept-Encoding": coding})
    assert response.headers["Content-Encoding"] == coding
    assert int(response.headers["Content-Length"]) == response.num_bytes_downloaded < int(plain.headers["Content-Length"])
    assert response.content == plain.content
    head = client.head(SOME, headers={"Accept-Encoding": coding})
    for name in ("Content-Encoding", "Content-Length", "Content-Type", "Vary"):
        assert head.headers[name] == response.headers[name]
    assert head.content == b""


def test_head_of_a_stream(client: httpx.Client) -> None:
    head = client.head(ALL, headers={"Accept-Encoding": "br"})
    assert (head.status_code, head.headers["Content-Encoding"], head.content) == (200, "br", b"")
    assert "Content-Length" not in head.headers
    assert client.get("/Product/compressed-00001").status_code == 200  # on the same connection


def test_nothing_is_coded_for_those_who_do_not_ask(client: httpx.Client) -> None:
    for accept in ("", "identity", "deflate;q=1.0", "br;q=0"):
        response = client.get(SOME, headers={"Accept-Encoding": accept})
        assert "Content-Encoding" not in response.headers
        assert "Accept-Encoding" in response.headers["Vary"]
    response = client.get("/Product/compressed-00001", headers={"Accept-Encoding": "br"})
    assert "Content-Encoding" not in response.headers  # short


def test_each_coding_has_a_tag_of_its_own(client: httpx.Client) -> None:
    long = {"id": "compressed", "specs": ["the same again"] * 500}
    assert client.put("/Product/compressed", json=long).status_code == 204

    def get(coding: str, method: str = "GET", **fields: str) -> httpx.Response:
        return client.request(method, "/Product/compressed", headers={"Accept-Encoding": coding, **fields})

    plain = get("identity").headers["ETag"]
    tags = {coding: get(coding).headers["ETag"] for coding in ("identity", "br", "gzip", "zstd")}
    assert tags == {"identity": plain} | {coding: f'"{plain[1:-1]}-{coding}"' for coding in ("br", "gzip", "zstd")}
    since = "Fri, 01 Jan 2100 00:00:00 GMT"
    for coding, tag in tags.items():
        assert get(coding, "HEAD").headers["ETag"] == tag
        for conditions in (
            {"If-None-Match": tag},
            {"If-None-Match": "*"},
            {"If-Modified-Since": since},
            {"If-Match": tag, "If-None-Match": tag},
        ):
            for method in ("GET", "HEAD"):
                unchanged = get(coding, method, **conditions)
                assert (unchanged.status_code, unchanged.headers["ETag"]) == (304, tag), (coding, conditions)
                assert {"content-encoding", "content-type"}.isdisjoint(unchanged.headers)
                assert unchanged.headers["Vary"] == "Accept, Accept-Encoding, Authorization, Cookie"
        for other in tags.values():
            assert get(coding, **{"If-None-Match": other}).status_code == 304, "either names the version"
            assert get(coding, **{"If-Match": other}).status_code == 200
    assert client.patch("/Product/compressed", json={"name": "a"}, headers={"If-None-Match": tags["br"]}).status_code == 412
    assert client.patch("/Product/compressed", json={"name": "a"}, headers={"If-Match": tags["gzip"]}).status_code == 204
    for tag in tags.values():
        assert client.patch("/Product/compressed", json={"name": "b"}, headers={"If-Match": tag}).status_code == 412
        assert get("gzip", **{"If-None-Match": tag}).status_code == 200
    assert client.delete("/Product/compressed", headers={"If-Match": get("br").headers["ETag"]}).status_code == 204


def test_ranges_are_of_what_has_no_coding(client: httpx.Client) -> None:
    text = b"0123456789" * 500
    assert client.put("/Product/ranged", content=text, headers={"Content-Type": "text/plain"}).status_code == 204
    coded = client.get("/Product/ranged", headers={"Accept-Encoding": "gzip"})
    plain = client.get("/Product/ranged", headers={"Accept-Encoding": "identity"})
    assert coded.headers["ETag"] == plain.headers["ETag"][:-1] + '-gzip"' and coded.content == plain.content == text
    for tag, status in ((plain.headers["ETag"], 206), (coded.headers["ETag"], 200)):
        part = client.get("/Product/ranged", headers={"Accept-Encoding": "gzip", "Range": "bytes=0-9", "If-Range": tag})
        assert part.status_code == status, "a part of the one does not complete the other"
    part = client.get("/Product/ranged", headers={"Accept-Encoding": "gzip", "Range": "bytes=0-9"})
    assert (part.status_code, part.headers["ETag"], part.content) == (206, plain.headers["ETag"], text[:10])
    assert client.delete("/Product/ranged").status_code == 204


def test_identity_refused(client: httpx.Client) -> None:
    for accept in ("identity;q=0", "*;q=0", "deflate, identity;q=0"):
        assert client.get("/Product/compressed-00001", headers={"Accept-Encoding": accept}).status_code == 406
    response = client.get("/Product/compressed-00001", headers={"Accept-Encoding": "gzip, identity;q=0"})
    assert (response.status_code, response.headers["Content-Encoding"]) == (200, "gzip")
    assert response.json()["id"] == "compressed-00001"
    refused = client.post("/Product/", json={"id": "compressed-never"}, headers={"Accept-Encoding": "identity;q=0"})
    assert refused.status_code == 406
    assert client.get("/Product/compressed-never").status_code == 404  # refused before anything was done
    write = client.put("/Product/compressed-written", json={"name": "x"}, headers={"Accept-Encoding": "identity;q=0"})
    assert write.status_code == 204  # no body, nothing to negotiate
    assert client.delete("/Product/compressed-written").status_code == 204


@pytest.mark.skipif(shutil.which("curl") is None, reason="curl is not installed")
@pytest.mark.parametrize("target", [ALL, SOME], ids=["stream", "whole"])
def test_curl_compressed(server: Process, target: str) -> None:
    command = ["curl", "--compressed", "--silent", "--show-error", "--fail", "--globoff", "--dump-header", "-", "--max-time", "30"]
    done = subprocess.run([*command, "--user", f"admin:{PASSWORD}", server.url + target], capture_output=True, check=True)
    head, _, body = done.stdout.partition(b"\r\n\r\n")
    assert b"content-encoding: br" in head.lower() or b"content-encoding: gzip" in head.lower()
    assert len(json.loads(body)) == (len(ROWS) if target == ALL else 100)


# --- request bodies --------------------------------------------------------------------------------------------------------------------


def raw_deflate(body: bytes) -> bytes:
    stream = zlib.compressobj(6, zlib.DEFLATED, -15)
    return stream.compress(body) + stream.flush()


@pytest.mark.parametrize(
    ("coding", "encode"),
    [
        ("gzip", gzip.compress),
        ("br", lambda body: brotli.compress(body, quality=5)),
        ("deflate", zlib.compress),
        ("deflate", raw_deflate),
        ("zstd", zstandard.compress),
        ("gzip, br", lambda body: brotli.compress(gzip.compress(body), quality=5)),
    ],
    ids=["gzip", "br", "deflate", "raw deflate", "zstd", "two"],
)
def test_coded_request_bodies(client: httpx.Client, coding: str, encode: Callable[[bytes], bytes]) -> None:
    fields = {"Content-Type": "application/json", "Content-Encoding": coding}
    for size in (1, 20_000):  # at once, and in slices
        record: dict[str, Any] = {"id": "coded", "specs": [f"{number * 2654435761 % 2**32:x}" for number in range(size)]}
        response = client.put("/Product/coded", content=encode(json.dumps(record).encode()), headers=fields)
        assert response.status_code == 204, response.text
        assert len(client.get("/Product/coded").json()["specs"]) == size
    assert client.delete("/Product/coded").status_code == 204


def test_faulty_coded_bodies(client: httpx.Client) -> None:
    def put(coding: str, body: bytes) -> httpx.Response:
        return client.put("/Product/coded", content=body, headers={"Content-Type": "application/json", "Content-Encoding": coding})

    unknown = put("compress", b"{}")
    assert (unknown.status_code, unknown.headers["Accept-Encoding"]) == (415, "br, zstd, gzip, deflate")
    for coding in ("gzip", "br", "deflate", "zstd"):
        damaged = put(coding, b"{} not coded")
        assert (damaged.status_code, damaged.json()["code"]) == (400, "BAD_BODY")
    cut = put("gzip", gzip.compress(b"{}" * 100)[:-3])
    assert (cut.status_code, cut.json()["code"]) == (400, "BAD_BODY")
    assert client.get("/Product/coded").status_code == 404
