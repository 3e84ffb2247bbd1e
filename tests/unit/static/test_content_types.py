"""Content types of files."""

from __future__ import annotations

import mimetypes

import pytest

from svc.static.content_types import _TYPES, content_type_of, is_compressible


@pytest.mark.parametrize(
    ("name", "content_type"),
    [
        ("web/index.html", "text/html; charset=utf-8"),
        ("app.mjs", "text/javascript; charset=utf-8"),
        ("a.b.CSS", "text/css; charset=utf-8"),
        ("a.json", "application/json"),
        ("a.svg", "image/svg+xml"),
        ("a.woff2", "font/woff2"),
        ("a.wasm", "application/wasm"),
        ("a.webmanifest", "application/manifest+json"),
        ("a.mp4", "video/mp4"),
        ("a.png", "image/png"),
        ("a.pdf", "application/pdf"),
        ("a.zip", "application/zip"),
        ("a.unknown", "application/octet-stream"),
        ("LICENSE", "application/octet-stream"),
        ("a.html/b", "application/octet-stream"),
        (".html", "application/octet-stream"),
        ("a.", "application/octet-stream"),
    ],
)
def test_by_extension(name: str, content_type: str) -> None:
    assert content_type_of(name) == content_type


def test_what_the_machine_has_installed_does_not_count() -> None:
    mimetypes.add_type("application/x-odd", ".unknown")
    try:
        assert content_type_of("a.unknown") == "application/octet-stream"
    finally:
        mimetypes.init(files=())


def test_all_types_can_be_sent() -> None:
    for extension in _TYPES:
        found = content_type_of(f"a.{extension}")
        assert found.isascii() and "/" in found
        if found.startswith(("text/", "application/json")):
            assert is_compressible(found)
