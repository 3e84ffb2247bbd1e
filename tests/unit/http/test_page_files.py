from __future__ import annotations

from pathlib import Path

import pytest

from svc.http.compression import Compression
from svc.http.page_files import IMMUTABLE, read_file, security_pairs
from svc.messages import HeaderBlock, Request

NO_COMPRESSION = Compression(0)


def request(**fields: str) -> Request:
    return Request("GET", "/x", HeaderBlock([(name.replace("_", "-"), value) for name, value in fields.items()]))


def test_a_file_is_sent_with_its_type_and_what_it_may_do(tmp_path: Path) -> None:
    (tmp_path / "a.css").write_text("p {}")
    file = read_file(tmp_path / "a.css", security_pairs("default-src 'none'", referrer="same-origin"), cache=IMMUTABLE)
    response = file.response(request(), NO_COMPRESSION)
    assert (response.status, response.body) == (200, b"p {}")
    assert dict(response.pairs) == {
        "Content-Type": "text/css; charset=utf-8",
        "ETag": f'"{file.tag}"',
        "Cache-Control": "public, max-age=31536000, immutable",
        "Vary": "Accept-Encoding",
        "Content-Security-Policy": "default-src 'none'",
        "X-Content-Type-Options": "nosniff",
        "Referrer-Policy": "same-origin",
        "Cross-Origin-Opener-Policy": "same-origin",
        "Cross-Origin-Resource-Policy": "same-origin",
    }


@pytest.mark.parametrize(("wanted", "status"), [("*", 304), ('"{}"', 304), ('W/"{}"', 304), ('"{}-br"', 304), ('"other"', 200)])
def test_a_version_that_the_client_has_is_not_sent_again(tmp_path: Path, wanted: str, status: int) -> None:
    (tmp_path / "a.svg").write_text("<svg/>")
    file = read_file(tmp_path / "a.svg", [])
    response = file.response(request(if_none_match=wanted.format(file.tag)), NO_COMPRESSION)
    assert response.status == status and (response.body is None) == (status == 304)
