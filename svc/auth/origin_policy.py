"""Which origins of pages a server trusts (RFC 6454; spec: security §3, http §9).

    own       scheme, host and port that the request was sent to
    listed    named in the access list; on the application port also the origin of the operations port of the same host
    foreign   any other, `null` among them; and what a browser calls cross-site (Fetch Metadata) without naming an origin

Browsers add cookies, Basic credentials and client certificates to whatever any page sends. A request of a foreign page is therefore never identified
by them: `Identifier` treats it as anonymous but for a Bearer token, which only the page itself can have added. Clients that are no browsers send none
of these fields, and cost one or two look-ups in a dict.

`*`, null and an empty list list no origin: they let foreign pages read the answers to requests without credentials.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from enum import Enum
from functools import lru_cache
from typing import Final

from svc.errors import Problem, Refusal
from svc.messages import Request

CACHED_RELATIONS = 1024  # of different (scheme, host, origin); clients may send any, so it is bounded

_DEFAULT_PORTS: Final = {"http": 80, "https": 443}
_ORIGIN = re.compile(r"(https?)://(\[[0-9a-f:.]+\]|[^\s/?#@:\[\]\\]+)(?::(\d{1,5}|\*))?/?", re.IGNORECASE)
_EVERY_PORT = "*"
_LONGEST_SHOWN = 100  # characters of an origin in a message


class Relation(Enum):
    """The relation of the origin of a request's page to the server."""

    OWN = "own"
    LISTED = "listed"
    FOREIGN = "foreign"


def parse_origin(text: str) -> tuple[str, str, int | str] | None:
    """(scheme, host, port) of an origin in lower case; port `*` in a pattern; None for anything else, such as `null`.

    >>> parse_origin("https://Shop.example"), parse_origin("http://[::1]:9926")
    (('https', 'shop.example', 443), ('http', '[::1]', 9926))
    >>> parse_origin("http://localhost:*"), parse_origin("null"), parse_origin("shop.example")
    (('http', 'localhost', '*'), None, None)
    """
    match = _ORIGIN.fullmatch(text)
    if match is None:
        return None
    scheme, host, port = match[1].lower(), match[2].lower(), match[3]
    return scheme, host, _EVERY_PORT if port == _EVERY_PORT else int(port) if port else _DEFAULT_PORTS[scheme]


class OriginPolicy:
    """The origins that one server knows. `setting`: the name of its access list, for messages."""

    def __init__(
        self,
        access_list: Sequence[str | None] | None = (),
        *,
        enabled: bool = True,
        setting: str = "http.corsAccessList",
        page_ports: Mapping[str, int | None] | None = None,
    ) -> None:
        """`access_list`: origins, maybe with `*` for every port; `*` or null in it, or no list: foreign ones are admitted without credentials.

        `enabled` False: no other origin than the own one is listed or admitted. `page_ports`: by scheme, the port of this node whose pages are trusted
        on this one. `invalid` has the entries that are no origins.
        """
        self.setting = setting
        entries = list(access_list) if access_list is not None else [None]
        self.admits_foreign = enabled and any(entry is None or entry in ("*", "null") for entry in entries)
        self.invalid: list[str] = []
        self._listed: set[tuple[str, str, int | str]] = set()
        for entry in entries:
            if entry is None or entry in ("*", "null"):
                continue
            origin = parse_origin(entry)
            if origin is None:
                self.invalid.append(entry)
            elif enabled:
                self._listed.add(origin)
        self._page_ports = dict(page_ports or {})
        self._relation = lru_cache(CACHED_RELATIONS)(self._find_relation)

    @property
    def lists_any(self) -> bool:
        return bool(self._listed or any(self._page_ports.values()))

    def relation(self, request: Request) -> Relation | None:
        """None: the request is not known to be made by a page."""
        fields = request.block.fields
        origin = fields.get("origin")
        if origin is not None:
            return self._relation(request.scheme, fields.get("host", ""), origin)
        return Relation.FOREIGN if "cross-site" in fields.get("sec-fetch-site", "").lower() else None

    def is_foreign(self, request: Request) -> bool:
        return self.relation(request) is Relation.FOREIGN

    def has_other_sites(self, host: str) -> bool:
        """Whether the list names an origin of another site than this server's name `host` (without port), whose pages send cookies only with
        `SameSite=None`."""
        return any(not is_same_site(listed, host) for _, listed, _ in self._listed)

    def refusal(self, request: Request) -> str:
        """Why credentials of the browser did not count, for the body of a 401."""
        origin = request.block.fields.get("origin")
        source = "a page of another site" if origin is None else f"origin {origin[:_LONGEST_SHOWN]}"
        return f"{source} is not in {self.setting}, only a Bearer token counts"

    def _find_relation(self, scheme: str, host: str, origin: str) -> Relation:
        page = parse_origin(origin)
        if page is None or page[2] == _EVERY_PORT:
            return Relation.FOREIGN
        own = parse_origin(f"{scheme}://{host}")
        if page == own:
            return Relation.OWN
        if page in self._listed or (page[0], page[1], _EVERY_PORT) in self._listed:
            return Relation.LISTED
        if own is not None and page == (own[0], own[1], self._page_ports.get(own[0])):
            return Relation.LISTED
        return Relation.FOREIGN


def is_same_site(one: str, other: str) -> bool:
    """Whether two host names are of one site for a browser, as far as names tell: the same, or one below the other. Without the list of public
    suffixes two names below a common one are taken for two sites.

    >>> is_same_site("shop.example.com", "example.com"), is_same_site("a.example.com", "b.example.com"), is_same_site("a.com", "com")
    (True, False, False)
    """
    longer, shorter = (one, other) if len(one) >= len(other) else (other, one)
    return longer == shorter or ("." in shorter and longer.endswith("." + shorter))


def explained(error: BaseException, request: Request) -> BaseException:
    """A 401 or 403 of a foreign page's anonymous request, with the reason why it is anonymous; any other exception as it is."""
    reason = request.foreign
    if reason is None or request.user is not None or not isinstance(error, Problem) or error.status_code not in (401, 403):
        return error
    if isinstance(error, Refusal) or reason in error.message:  # the body of the former is fixed as a whole
        return error
    return Problem(
        f"{error.message}: {reason}",
        error.status_code,
        error.code,
        headers=error.headers,
        errors=error.errors,
        retryable=error.retryable,
    )
