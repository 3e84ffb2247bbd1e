"""What every page has: its style, where it is, who is logged in, and how to log in and out; and what it is sent with."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

from svc.http.compression import VARY
from svc.http.page_files import IMMUTABLE, PageFile, page_file, security_pairs
from svc.messages import HeaderPairs, Request
from svc.pages.cells import shortened

FILES = "/_pages/"
"""The address below which the files of pages are. At the address itself is what there is on the server: an application may have a page of its own at `/`."""

_DIRECTORY = Path(__file__).parent / "files"
_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; form-action 'self'; frame-ancestors 'none'; "
    "base-uri 'none'"
)
_LONGEST_ADDRESS = 500  # characters that are shown
_LONGEST_REDIRECT = 1500  # characters of an address that a login leads back to

NO_STORE = ("Cache-Control", "no-store")
SECURITY = security_pairs(_POLICY, referrer="same-origin")
"""The referrer stays with this server. Without one, a browser would send the forms with `Origin: null`, which is foreign (Fetch §3.2)."""
PAIRS: HeaderPairs = [("Content-Type", "text/html; charset=utf-8"), ("Cache-Control", "private, no-cache"), VARY, *SECURITY]
"""Of every page. No entity tag: a page also says who is logged in."""


def _read() -> dict[str, PageFile]:
    """Scripts and pictures as they are, and one style sheet of all."""
    paths = sorted(_DIRECTORY.iterdir(), key=lambda path: (path.stem != "page", path.name))
    files = {path: path.read_bytes() for path in paths if path.suffix != ".css"}
    files[_DIRECTORY / "page.css"] = b"".join([path.read_bytes() for path in paths if path.suffix == ".css"])
    found = {}
    for path, body in files.items():
        file = page_file(body, path.suffix, SECURITY, cache=IMMUTABLE)
        found[f"{FILES}{path.stem}-{file.tag[:12]}{path.suffix}"] = file
    return found


ASSETS = _read()
STYLE, ICON = (next(path for path in ASSETS if path.endswith(suffix)) for suffix in (".css", ".svg"))
SCRIPTS = {path[len(FILES) :].rpartition("-")[0]: path for path in ASSETS if path.endswith(".js")}
"""Script modules by name: `page` is in every page, others where a template asks for them."""


@dataclass(slots=True)
class Frame:
    """`home`: the address of what there is on the server. `root`: the relative address of the server's root, so that a proxy may have it below a path of its
    own. `address`: of this page. `user`: who is logged in, "" nobody. `login`, `logout`: addresses, "" where there is nothing to do. `scripts`: addresses
    of the script modules, by name."""

    root: str
    home: str
    style: str
    icon: str
    address: str
    user: str
    login: str
    logout: str
    scripts: Mapping[str, str]


def frame_of(request: Request, *, has_login: bool) -> Frame:
    root = root_of(request.pathname)
    user, login, logout = request.user, "", ""
    if has_login and user is None and request.pathname != "/login":
        login = f"{root}login"
        if len(request.target) <= _LONGEST_REDIRECT and request.pathname not in ("/", "/logout"):
            login += f"?redirect={quote(request.prefix + request.target, safe='')}"
    elif has_login and "cookie" in request.block.fields and request.session is not None and request.session.user is not None:
        logout = f"{root}logout"
    return Frame(
        root,
        root if request.pathname == "/" else root + FILES[1:],
        root + STYLE[1:],
        root + ICON[1:],
        shortened(f"{request.scheme}://{request.host}{request.prefix}{request.target}", _LONGEST_ADDRESS),
        "" if user is None else shortened(user.username, 100),
        login,
        logout,
        {name: root + path[1:] for name, path in SCRIPTS.items()},
    )


def root_of(path: str) -> str:
    """The root, relative to a path.

    >>> root_of("/"), root_of("/Product"), root_of("/Product/"), root_of("/Product/a/b")
    ('./', './', '../', '../../')
    """
    return "../" * (path.count("/") - 1) or "./"
