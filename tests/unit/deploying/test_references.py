"""What `package` may be."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from svc.deploying.references import Download, IndexPackage, LocalPath, Repository, parse_reference, project_of, shown
from svc.errors import ClientError


@pytest.mark.parametrize(
    ("text", "meant", "project"),
    [
        ("/srv/apps/shop", LocalPath(Path("/srv/apps/shop")), "shop"),
        ("file:/srv/shop-1.2.tar.gz", LocalPath(Path("/srv/shop-1.2.tar.gz")), "shop-1-2"),
        ("file:///srv/shop", LocalPath(Path("/srv/shop")), "shop"),
        ("https://example.com/a/shop.tgz?x=1", Download("https://example.com/a/shop.tgz?x=1"), "shop"),
        ("acme/shop", Repository("https://github.com/acme/shop.git"), "shop"),
        ("acme/shop.git#v2", Repository("https://github.com/acme/shop.git", "v2"), "shop"),
        ("acme/shop#semver:v1.2.3", Repository("https://github.com/acme/shop.git", "v1.2.3"), "shop"),
        ("https://git.example/acme/shop#main", Repository("https://git.example/acme/shop", "main"), "shop"),
        ("git+https://git.example/shop.git#f/x", Repository("https://git.example/shop.git", "f/x"), "shop"),
        ("git+ssh://git@shop.example/acme/shop.git", Repository("ssh://git@shop.example/acme/shop.git"), "shop"),
        ("git+file:///srv/shop.git", Repository("file:///srv/shop.git"), "shop"),
        ("pypi:acme.shop==1.0", IndexPackage("acme.shop", "1.0"), "acme-shop"),
        ("pypi:shop", IndexPackage("shop"), "shop"),
    ],
)
def test_forms(text: str, meant: object, project: str) -> None:
    reference = parse_reference(text)
    assert reference == meant
    assert project_of(reference) == project


@pytest.mark.parametrize(
    "text",
    [
        "left-pad", "@scope/name", "a/b/c", "acme/..", "ftp://example.com/x.tar.gz", "https://example.com/", "https:///x.tar.gz", "http://[::1/x.tar.gz",
        "git+https://", "git+ext::sh -c x", "acme/shop#--upload-pack=x", "acme/shop#a..b", "acme/shop#a b", "pypi:-r", "pypi:a --index-url x", "pypi:a==1;x",
        "file:relative", "file:../x", "a\nb/c", "x" * 3000, "git+https://example.com:99999999/a/b", "--help/x", "-u/x",
    ],
)  # fmt: skip
def test_what_is_none_is_refused(text: str) -> None:
    with pytest.raises(ClientError, match="Package reference not supported"):
        parse_reference(text)


@given(st.text(max_size=60))
def test_no_text_is_an_option_of_a_program(text: str) -> None:
    try:
        reference = parse_reference(text)
    except ClientError:
        return
    if isinstance(reference, Repository):
        assert not reference.url.startswith("-") and not reference.ref.startswith("-")
    if isinstance(reference, IndexPackage):
        assert not reference.name.startswith("-")


def test_passwords_are_not_shown() -> None:
    assert shown("git+https://ann:word@example.com/a/b#v1") == "git+https://example.com/a/b#v1"
    assert shown("https://token@example.com/x.tar.gz") == "https://example.com/x.tar.gz"
    assert shown("git+ssh://git@example.com/a/b") == "git+ssh://git@example.com/a/b"
