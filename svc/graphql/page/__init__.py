"""The page that a browser gets at `/graphql`: GraphiQL, without a build step and without other hosts (spec: graphql §9).

`files` are ours, `graphiql` is as its makers deliver it. They are read when the first one is asked for. `files/page.html` is the page; what it needs has
addresses below `ADDRESS`. Nothing in them depends on who asks: what a user may see comes with the answers to the queries that the page sends. They belong
together, so a browser asks each time whether they are as before.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path

from svc.http.page_files import PageFile, read_file, security_pairs

ADDRESS = "/graphql/assets/"

_HERE = Path(__file__).parent
_PAGE = _HERE / "files" / "page.html"
_ASSETS = {
    ADDRESS + path.name: path
    for path in (
        *(_HERE / "files" / name for name in ("icon.svg", "page.css", "page.js")),
        *(
            _HERE / "graphiql" / name
            for name in ("graphiql.min.css", "graphiql.min.js", "react-dom.production.min.js", "react.production.min.js")
        ),
    )
}
# The hash is that of what a dialog of GraphiQL adds to keep the page behind it from being scrolled.
_SECURITY = security_pairs(
    "default-src 'none'; script-src 'self'; style-src 'self' 'sha256-nzTgYzXYDNe6BAHiiI7NNlfK8n/auuOAhh2t92YvuXo='; "
    "connect-src 'self'; img-src 'self' data:; font-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)

PATHS: tuple[str, ...] = tuple(_ASSETS)
"""Of the files that the page needs."""


@cache
def _file(path: Path) -> PageFile:
    # At the address of the page there are queries, too.
    return read_file(path, _SECURITY, vary="Accept, Accept-Encoding" if path is _PAGE else "Accept-Encoding")


def page() -> PageFile:
    """The page itself, for requests without a query that prefer HTML."""
    return _file(_PAGE)


def asset(path: str) -> PageFile | None:
    """The file at an address of `PATHS`; None elsewhere."""
    found = _ASSETS.get(path)
    return None if found is None else _file(found)
