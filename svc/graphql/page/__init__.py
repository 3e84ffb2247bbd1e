"""The page that a browser gets at `/graphql`: an editor for queries, without a build step and without other hosts (spec: graphql §9).

The files lie beside this module and are read once. `files/page.html` is the page; what it needs has addresses below `ADDRESS`. Nothing in them depends
on who asks: what a user may see comes with the answers to the queries that the page sends. They belong together, so a browser asks each time whether
they are as before.
"""

from __future__ import annotations

from pathlib import Path

from svc.http.page_files import TYPES, PageFile, read_file, security_pairs

ADDRESS = "/graphql/assets/"

_PAGE = "page.html"
_FILES = Path(__file__).parent / "files"
_SECURITY = security_pairs(
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)


def _read(path: Path) -> PageFile:
    # At the address of the page there are queries, too.
    return read_file(path, _SECURITY, vary="Accept, Accept-Encoding" if path.name == _PAGE else "Accept-Encoding")


_ASSETS = {ADDRESS + path.name: _read(path) for path in sorted(_FILES.iterdir()) if path.suffix in TYPES}
_THE_PAGE = _ASSETS.pop(ADDRESS + _PAGE)

PATHS: tuple[str, ...] = tuple(_ASSETS)
"""Of the files that the page needs."""


def page() -> PageFile:
    """The page itself, for requests without a query that prefer HTML."""
    return _THE_PAGE


def asset(path: str) -> PageFile | None:
    """The file at an address of `PATHS`; None elsewhere."""
    return _ASSETS.get(path)
