"""The cookies of one client (RFC 6265, without domains: there is one host)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from math import inf


@dataclass(slots=True)
class Cookie:
    value: str
    path: str = "/"
    expires: float = inf  # seconds since the epoch


class Cookies(dict[str, Cookie]):
    """By name. `now`: seconds since the epoch."""

    def __init__(self, now: Callable[[], float]) -> None:
        super().__init__()
        self._now = now

    def receive(self, fields: Sequence[tuple[str, str]], path: str = "/") -> None:
        """Take over the `Set-Cookie` fields of an answer to a request for `path`."""
        for field, value in fields:
            if field.lower() == "set-cookie":
                self._set(value, path.partition("?")[0])

    def _set(self, text: str, path: str) -> None:
        first, *attributes = text.split(";")
        name, _, value = first.strip().partition("=")
        cookie = Cookie(value, path[: path.rfind("/")] or "/")  # the default (§5.1.4)
        given = {key.strip().lower(): stated.strip() for key, _, stated in (each.partition("=") for each in attributes)}
        if given.get("path", "").startswith("/"):
            cookie.path = given["path"]
        try:
            if "max-age" in given:
                cookie.expires = self._now() + int(given["max-age"])
            elif "expires" in given:
                cookie.expires = parsedate_to_datetime(given["expires"]).timestamp()
        except (ValueError, OverflowError):
            pass  # an attribute that cannot be read is ignored (§5.2)
        if cookie.expires <= self._now():
            if name in self and self[name].path == cookie.path:
                del self[name]
        else:
            self[name] = cookie

    def header(self, path: str) -> str:
        """The value of `Cookie` for a request; "" for none."""
        path = path.partition("?")[0]
        sent = [f"{name}={each.value}" for name, each in self.items() if each.expires > self._now() and _matches(path, each.path)]
        return "; ".join(sent)


def _matches(path: str, scope: str) -> bool:
    """
    >>> _matches("/shop/1", "/shop"), _matches("/shopping", "/shop"), _matches("/x", "/")
    (True, False, True)
    """
    return path == scope or path.startswith(scope if scope.endswith("/") else f"{scope}/")
