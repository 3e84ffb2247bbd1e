"""The files of the page: what they are sent with, and that each needs only files that are there."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from svc.graphql.page import ADDRESS, PATHS, asset, page
from svc.http.compression import Compression
from svc.http.page_files import PageFile
from svc.messages import HeaderBlock, Request

NO_COMPRESSION = Compression(0)
DOCS = Path(__file__).parents[4] / "docs" / "graphql.md"


def files() -> list[PageFile]:
    return [page(), *(found for path in PATHS if (found := asset(path)) is not None)]


def request(**fields: str) -> Request:
    return Request("GET", "/graphql", HeaderBlock([(name.replace("_", "-"), value) for name, value in fields.items()]))


class Elements(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))


def elements() -> list[tuple[str, dict[str, str | None]]]:
    parser = Elements()
    parser.feed(page().body.decode())
    return parser.found


def test_every_file_says_what_it_is_and_that_a_page_may_do_nothing_else() -> None:
    for file in files():
        response = file.response(request(), NO_COMPRESSION)
        headers = response.headers
        assert (response.status, response.body) == (200, file.body)
        assert headers["Content-Type"].endswith("; charset=utf-8")
        assert headers["X-Content-Type-Options"] == "nosniff"
        assert headers["Cache-Control"] == "no-cache"
        policy = dict(part.strip().split(" ", 1) for part in headers["Content-Security-Policy"].split(";"))
        assert policy.pop("default-src") == "'none'"
        assert (policy.pop("img-src"), policy.pop("font-src")) == ("'self' data:", "data:")
        assert policy.pop("style-src").startswith("'self' 'sha256-")
        assert set(policy.values()) == {"'self'", "'none'"}


def test_the_page_varies_with_what_is_accepted() -> None:
    assert page().response(request(), NO_COMPRESSION).headers["Vary"] == "Accept, Accept-Encoding"


@pytest.mark.parametrize("suffix", ["", "-br", "-gzip"])
def test_a_known_version_is_not_sent_again(suffix: str) -> None:
    response = page().response(request(if_none_match=f'W/"x", "{page().tag}{suffix}"'), NO_COMPRESSION)
    assert (response.status, response.body) == (304, None)
    assert response.headers["ETag"] == f'"{page().tag}"'


def test_another_version_is_sent() -> None:
    assert page().response(request(if_none_match='"another"'), NO_COMPRESSION).status == 200


def test_a_long_file_is_compressed() -> None:
    file = asset(ADDRESS + "page.js")
    assert file is not None
    response = file.response(request(accept_encoding="gzip"), Compression(1000))
    assert response.headers["Content-Encoding"] == "gzip"
    assert len(response.body or b"") < len(file.body)


def test_the_page_has_no_script_or_style_of_its_own_and_asks_no_other_host() -> None:
    for tag, attributes in elements():
        assert tag not in ("style", "iframe", "object", "base"), tag
        assert not any(name == "style" or name.startswith("on") for name in attributes), attributes
        for name in ("src", "href"):
            address = attributes.get(name)
            assert address is None or address.startswith("login?") or asset(f"/{address}") is not None, address
    assert all("src" in attributes for tag, attributes in elements() if tag == "script")


def test_labels_and_references_name_elements_that_are_there() -> None:
    ids = [attributes["id"] for _, attributes in elements() if "id" in attributes]
    assert len(ids) == len(set(ids))
    for _, attributes in elements():
        for name in ("for", "aria-controls", "aria-labelledby"):
            if name in attributes:
                assert attributes[name] in ids


def test_our_script_writes_values_as_text_and_asks_no_other_host() -> None:
    file = asset(ADDRESS + "page.js")
    assert file is not None
    assert not re.search(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\b|new Function|https?://", file.body.decode())


def test_the_sizes_are_those_that_the_documentation_gives() -> None:
    total = sum(len(file.body) for file in files())
    bodies: list[Any] = [file.response(request(accept_encoding="br"), Compression(1000)).body for file in files()]
    sent = sum(len(body) if isinstance(body, bytes) else sum(map(len, body)) for body in bodies)
    documented = re.search(r"([\d.]+) MB in all, ([\d.]+) MB compressed", DOCS.read_text("utf-8"))
    assert documented is not None
    assert (round(total / 1e6, 1), round(sent / 1e6, 1)) == tuple(map(float, documented.groups()))


def test_other_addresses_have_no_file() -> None:
    for path in (ADDRESS, ADDRESS + "page.html", ADDRESS + "../page.js", ADDRESS + "__init__.py", "/graphql"):
        assert asset(path) is None
