"""Which file an address means."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.support.static_files import Site

FILES: dict[str, bytes | str] = {
    "web/index.html": "root",
    "web/about.html": "about",
    "web/a/b.css": "css",
    "web/a/index.html": "a",
    "web/a b/ü.txt": "umlaut",
    "web/page": "bare",
    "web/page.html": "with",
    "web/.env": "secret",
    "web/.well-known/x.txt": "known",
    "web/.well-known/a/x.txt": "well",
    "web/.well-known/.x": "hidden",
    "web/a/.well-known/x.txt": "hidden",
    "web/a/.git/config": "hidden",
    "web/x.y": "dots",
    "web/x%2Fy": "percent",
    "web/deep/node_modules/m.js": "module",
    "config.yaml": "private",
    "webs/x.txt": "beside",
}


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return Site(tmp_path, FILES, {"index": True, "extensions": ["html", "txt"], "fallthrough": False})


@pytest.mark.parametrize(
    ("target", "body"),
    [
        ("/about.html", "about"),
        ("/about", "about"),
        ("/a/b.css", "css"),
        ("/a/b.css?v=1", "css"),
        ("/a%20b/%C3%BC.txt", "umlaut"),
        ("/a%20b/%C3%BC", "umlaut"),
        ("/%61/b.css", "css"),
        ("/page", "bare"),
        ("/page.html", "with"),
        ("/", "root"),
        ("/a/", "a"),
        ("/x.y", "dots"),
        ("/.well-known/x.txt", "known"),
        ("/.well-known/a/x.txt", "well"),
        ("/x%252Fy", "percent"),
    ],
)
def test_found(site: Site, target: str, body: str) -> None:
    for _ in range(3):  # from the disk, and from memory
        assert site.get(target)[::2] == (200, body.encode())


@pytest.mark.parametrize(
    "target",
    [
        "/none",
        "/ABOUT.html",
        "/about.html/",
        "/a/b.css/",
        "/a/b.css/x",
        "/.env",
        "/%2eenv",
        "/.well-known/.x",
        "/.well-known",
        "/a/.well-known/x.txt",
        "/a/.git/config",
        "/../config.yaml",
        "/%2e%2e/config.yaml",
        "/a/../about.html",
        "/a/./b.css",
        "/..%2fconfig.yaml",
        "/..%5cconfig.yaml",
        "/a%2fb.css",
        "/a%2Fb.css",
        "//about.html",
        "/a//b.css",
        "//a/b.css",
        "/about.html%00",
        "/about%00.html",
        "/\0",
        "/%ff",
        "/%c3",
        "/%",
        "/deep/node_modules/m.js",
        "/webs/x.txt",
        "/deep/",
        "/x%2Fy",
        "",
        "/" + "a" * 5000,
        "/" + "a/" * 5000,
        "/" + "%61" * 3000,
        "/a\\b.css",
    ],
)
def test_not_found(site: Site, target: str) -> None:
    assert site.get(target)[::2] == (404, b"File not found")


@pytest.mark.parametrize(
    ("target", "location"),
    [("/a", "/a/"), ("/a?b=c&d", "/a/?b=c&d"), ("/a?", "/a/?"), ("/%61", "/%61/"), ("/a?x=%0d%0aSet-Cookie:x", "/a/?x=%0d%0aSet-Cookie:x")],
)
def test_a_directory_without_a_slash_moves(site: Site, target: str, location: str) -> None:
    status, fields, _ = site.get(target)
    assert (status, fields["location"]) == (301, location)


def test_without_index_a_directory_is_no_file(tmp_path: Path) -> None:
    site = Site(tmp_path, FILES)
    for target in ("/", "/a", "/a/", "/about"):
        assert site.get(target)[0] == 0, "it passes on"


def test_an_address_below_a_prefix(tmp_path: Path) -> None:
    site = Site(tmp_path, FILES, {"urlPath": "static", "index": True})
    assert site.get("/static/about.html")[2] == b"about"
    assert site.get("/static/")[2] == b"root"
    assert site.get("/static")[1]["location"] == "/static/"
    assert site.get("/stati%63/about.html")[2] == b"about"
    for target in ("/about.html", "/staticabout.html", "/", "/stat", "/statica"):
        assert site.get(target)[0] == 0


def test_without_fallthrough_only_addresses_below_the_prefix_are_not_found(tmp_path: Path) -> None:
    site = Site(tmp_path, FILES, {"urlPath": "static", "fallthrough": False})
    for target in ("/static/none", "/static/../x", "/static/%ff", "/static", "/st%61tic/none", "/static/", "/static/.env"):
        assert site.get(target)[0] == 404, target
    for target in ("/none", "/", "/statics", "/%ff", "/about.html", "", "/other/static/none"):
        assert site.get(target)[0] == 0, target


def test_a_prefix_may_begin_with_a_dot(tmp_path: Path) -> None:
    site = Site(tmp_path, {"well/.x": "hidden", "well/acme.txt": "token"}, {"files": "well/**", "urlPath": "/.well-known/acme"})
    assert site.get("/.well-known/acme/acme.txt")[2] == b"token"
    assert site.get("/.well-known/acme/.x")[0] == 0


def test_of_several_patterns_the_first_counts_and_only_what_they_match(tmp_path: Path) -> None:
    files: dict[str, bytes | str] = {"one/x.txt": "1", "two/x.txt": "2", "two/y.txt": "2", "one/x.css": "css", "three.txt": "3"}
    site = Site(tmp_path, files, {"files": ["one/*.txt", "two/**", "three.txt"]})
    assert site.get("/x.txt")[2] == b"1"
    assert site.get("/y.txt")[2] == b"2"
    assert site.get("/three.txt")[2] == b"3"
    assert site.get("/x.css")[0] == 0
    (tmp_path / "one" / "x.txt").unlink()
    assert site.get("/x.txt")[2] == b"2"
    site.write("one/x.txt", "new")
    assert site.get("/x.txt")[2] == b"new"


def test_ignored_files_are_none(tmp_path: Path) -> None:
    site = Site(tmp_path, FILES, {"files": {"source": "web/**", "ignore": "web/a/**"}})
    assert site.get("/a/b.css")[0] == 0
    assert site.get("/about.html")[0] == 200


def test_links_lead_to_files_of_the_set_alone(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "secret").write_text("secret")
    app = tmp_path / "app"
    site = Site(app, FILES)
    links = {
        "out": outside / "secret",
        "relative-out": Path("../../outside/secret"),
        "config": Path("../config.yaml"),
        "hidden": Path(".env"),
        "loop": Path("loop"),
        "gone": Path("nothing"),
        "passwd": Path("/etc/passwd"),
        "inside": Path("about.html"),
        "other": Path("a"),
        "dir-out": outside,
        "dir-up": Path(".."),
    }
    for name, target in links.items():
        (app / "web" / name).symlink_to(target)
    assert site.get("/inside")[2] == site.get("/dir-up/web/about.html")[2] == b"about"
    assert site.get("/other/b.css")[2] == b"css"
    for target in (
        "/out",
        "/relative-out",
        "/config",
        "/hidden",
        "/loop",
        "/gone",
        "/passwd",
        "/dir-out/secret",
        "/dir-up/config.yaml",
    ):
        assert site.get(target)[0] == 0, target


def test_a_link_that_is_turned_outwards_is_not_followed(tmp_path: Path) -> None:
    site = Site(tmp_path / "app", FILES)
    secret = tmp_path / "secret"
    secret.write_text("hello")
    link = tmp_path / "app" / "web" / "link"
    link.symlink_to("about.html")
    assert site.get("/link")[2] == site.get("/link")[2] == b"about"
    link.unlink()
    link.symlink_to(secret)
    assert site.get("/link")[0] == 0


def test_pipes_and_devices_are_not_opened(tmp_path: Path) -> None:
    site = Site(tmp_path, FILES)
    os.mkfifo(tmp_path / "web" / "pipe")
    (tmp_path / "web" / "null").symlink_to("/dev/null")
    for target in ("/pipe", "/null"):
        assert site.get(target)[0] == 0


def test_a_file_that_may_not_be_read_is_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    site = Site(tmp_path, FILES)

    def refuse(*arguments: object, **options: object) -> int:
        raise PermissionError(13, "no")

    monkeypatch.setattr(os, "open", refuse)
    assert site.get("/about.html")[0] == 0


def test_without_the_directory_nothing_is_found_until_it_is_there(tmp_path: Path) -> None:
    site = Site(tmp_path, {})
    assert site.get("/about.html")[0] == 0
    site.write("web/about.html", "now")
    assert site.get("/about.html")[2] == b"now"
