"""Static files against plain models: ranges as sets of positions, addresses as entries of a dictionary; whatever is asked, nothing leaves the set."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from urllib.parse import quote, unquote

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from svc.static import read_options
from svc.static.ranges import GAP, RANGES_MAX, parse_ranges
from tests.support.static_files import Site

# --- ranges --------------------------------------------------------------------------------------------------------------------------

SIZE = 1000
CONTENT = bytes(number % 251 for number in range(SIZE))
position = st.one_of(st.integers(0, SIZE + 20), st.sampled_from([0, 1, SIZE - 1, SIZE, SIZE + 1, 10**15]))
one_range = st.one_of(
    st.tuples(position, position).map(lambda pair: (min(pair), max(pair))),
    st.tuples(position, st.none()),
    st.tuples(st.none(), position),
)


def text_of(ranges: list[tuple[int | None, int | None]]) -> str:
    return "bytes=" + ",".join(f"{'' if first is None else first}-{'' if last is None else last}" for first, last in ranges)


def positions_of(ranges: list[tuple[int | None, int | None]]) -> set[int]:
    """The bytes that are asked for (RFC 9110 §14.1.2)."""
    found: set[int] = set()
    for first, last in ranges:
        if first is None:
            assert last is not None
            found.update(range(SIZE)[max(0, SIZE - last) :] if last else ())
        else:
            found.update(range(SIZE)[first : SIZE if last is None else last + 1])
    return found


@given(st.lists(one_range, min_size=1, max_size=6))
def test_ranges_are_what_was_asked_for_and_small_gaps(ranges: list[tuple[int | None, int | None]]) -> None:
    asked = positions_of(ranges)
    found = parse_ranges(text_of(ranges), SIZE)
    assert found is not None
    sent = {number for start, end in found for number in range(start, end)}
    assert asked <= sent
    for start, end in found:
        assert 0 <= start < end <= SIZE and {start, end - 1} <= asked
        gaps = re.findall("0+", "".join("1" if number in asked else "0" for number in range(start, end)))
        assert all(len(gap) < GAP for gap in gaps)
    assert all(before[1] + GAP <= after[0] for before, after in pairwise(found))


@given(st.text("bytes=0123456789-, \t.x", max_size=60))
@example("bytes=" + "0-1," * (RANGES_MAX + 5))
def test_any_field_is_understood_or_ignored(text: str) -> None:
    found = parse_ranges(text, SIZE)
    assert found is None or all(0 <= start < end <= SIZE for start, end in found)


@pytest.fixture(scope="module")
def ranged(tmp_path_factory: pytest.TempPathFactory) -> Site:
    return Site(tmp_path_factory.mktemp("ranges"), {"web/small.bin": CONTENT, "web/large.bin": CONTENT * 100})


@given(st.lists(one_range, min_size=1, max_size=4), st.sampled_from(["/small.bin", "/large.bin"]))
def test_answers_hold_the_bytes_of_the_ranges(ranged: Site, ranges: list[tuple[int | None, int | None]], target: str) -> None:
    content = CONTENT if target == "/small.bin" else CONTENT * 100
    status, fields, body = ranged.get(target, range=text_of(ranges))
    expected = parse_ranges(text_of(ranges), len(content))
    if not expected:
        assert (status, fields["content-range"]) == (416, f"bytes */{len(content)}")
        return
    assert status == 206
    if "content-length" in fields:
        assert int(fields["content-length"]) == len(body)
    if len(expected) == 1:
        start, end = expected[0]
        assert (body, fields["content-range"]) == (content[start:end], f"bytes {start}-{end - 1}/{len(content)}")
        return
    boundary = fields["content-type"].partition("boundary=")[2].encode()
    parts = body.split(b"\r\n--" + boundary)
    assert (parts[0], parts[-1]) == (b"", b"--\r\n")
    found = []
    for part in parts[1:-1]:
        head, _, piece = part.partition(b"\r\n\r\n")
        start, last, size = map(int, re.search(rb"Content-Range: bytes (\d+)-(\d+)/(\d+)", head).groups())  # type: ignore[union-attr]
        assert piece == content[start : last + 1] and size == len(content)
        found.append((start, last + 1))
    assert found == expected


# --- addresses -----------------------------------------------------------------------------------------------------------------------

PUBLIC = {
    "a": "1", "b.txt": "2", "d/a": "3", "d/e/f.html": "4", "with space": "5", "ü/ö": "6", "a%2Fb": "7", "...": None, ".hidden": None, "d/.x/y": None,
    "x.": "8", "d/index.html": "9", "index.html": "10", "p.html": "11", "~": "12", "node_modules/m": None,
}  # fmt: skip
"""Below `web`: None is never sent."""
ALIASES = {"link": "1", "dir/a": "3"}


@pytest.fixture(scope="module")
def sites(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[Site]]:
    directory = tmp_path_factory.mktemp("addresses")
    app = directory / "app"
    (directory / "secret").write_text("SECRET")
    files = {f"web/{name}": "SECRET" if content is None else content for name, content in PUBLIC.items()}
    site = Site(app, {**files, "config.yaml": "SECRET", "web2/a": "SECRET", "d/a": "SECRET"}, {"index": True, "extensions": ["html"]})
    for name, target in {
        "link": "a",
        "dir": "d",
        "out": directory / "secret",
        "up": "../config.yaml",
        "root": "/",
        "self": ".",
        "dots": "..",
    }.items():
        (app / "web" / name).symlink_to(target)
    yield [site, Site(app, {}, {"urlPath": "/pre/fix/", "index": True, "extensions": ["html"]})]


pieces = st.one_of(
    st.sampled_from(
        [
            "",
            ".",
            "..",
            "...",
            "%2e",
            "%2E%2e",
            "%2f",
            "%5c",
            "%00",
            "\\",
            "%252e",
            "%c0%ae",
            "%ff",
            "pre",
            "fix",
            "web",
            "config.yaml",
            "secret",
        ]
    ),
    st.sampled_from(
        [
            "a",
            "b.txt",
            "d",
            "e",
            "f.html",
            "f",
            "with%20space",
            "%C3%BC",
            "%C3%B6",
            "a%252Fb",
            ".hidden",
            ".x",
            "y",
            "x.",
            "index.html",
            "p",
            "~",
        ]
    ),
    st.sampled_from(["link", "dir", "out", "up", "root", "self", "dots", "node_modules", "m", "tmp", "etc", "passwd"]),
    st.text(max_size=4).map(lambda text: quote(text.encode("utf-8", "replace"), safe="")),
    st.sampled_from(["a", "d", "link", "%61", "%7e"]),
)


@given(st.lists(pieces, max_size=6), st.booleans(), st.booleans())
@example(["d"], False, False)
@example(["self", "self", "dir", "a"], False, False)
@example(["pre", "fix", "dots", "secret"], False, True)
def test_no_address_leaves_the_set(sites: list[Site], parts: list[str], has_slash: bool, has_prefix: bool) -> None:
    target = "/" + "/".join(parts) + ("/" if has_slash else "")
    status, fields, body = sites[has_prefix].get(target)
    assert b"SECRET" not in body
    assert status in (0, 200, 301)
    if status == 301:
        assert re.fullmatch(r"/[^/\\].*/", fields["location"]) and not fields["location"].startswith("//")
    wanted = model(target, "/pre/fix/" if has_prefix else "/")
    if wanted is not None:
        assert (status, body) == (200, wanted.encode()), target
    elif status == 200:
        assert body.decode() in PUBLIC.values(), target


def model(target: str, prefix: str) -> str | None:
    """The content at an address that is spelled plainly."""
    if re.search("%2f|%5c", target, re.IGNORECASE) or not target.startswith(prefix):
        return None
    below = unquote(target[len(prefix) :])
    if below.endswith("/") or not below:
        below += "index.html"
    return PUBLIC.get(below) or PUBLIC.get(f"{below}.html") or ALIASES.get(below)


@given(st.binary(max_size=30))
def test_any_bytes_as_an_address(sites: list[Site], raw: bytes) -> None:
    for target in (f"/{raw.decode('latin-1')}", "/" + "".join(f"%{byte:02x}" for byte in raw), f"/pre/fix/{raw.decode('latin-1')}"):
        for site in sites:
            status, _, body = site.get(target.partition("?")[0])
            assert status in (0, 200, 301) and b"SECRET" not in body


# --- options -----------------------------------------------------------------------------------------------------------------------------

VALUES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.text(max_size=5),
    st.lists(st.text(max_size=3), max_size=3),
    st.dictionaries(st.text(max_size=3), st.integers()),
)


@given(st.dictionaries(st.sampled_from(["index", "extensions", "fallthrough", "notFound", "before", "after", "else"]), VALUES))
def test_any_options_are_read_or_refused_with_a_reason(options: dict[str, object]) -> None:
    try:
        read_options(options)
    except ValueError as error:
        assert str(error)


def test_the_model_knows_files_and_links(sites: list[Site], tmp_path: Path) -> None:
    for name, content in {**PUBLIC, **ALIASES}.items():
        if content is not None:
            assert sites[0].get("/" + quote(name))[2] == content.encode()
