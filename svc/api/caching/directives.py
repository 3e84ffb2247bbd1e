"""What a request says of caches: `Cache-Control` (RFC 9111 §5.2.1), and the attributes of the same meaning (spec: caching §5)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from svc.messages import Request

_REMEMBERED = 256  # header values; when it is full, it is cleared
_LONGEST = 1000  # characters of a header value that is remembered


@dataclass(frozen=True, slots=True)
class Directives:
    """`max_age`: seconds. `is_local`: what is here is all there is, however stale."""

    no_cache: bool = False
    no_store: bool = False
    only_if_cached: bool = False
    stale_if_error: bool = False
    must_revalidate: bool = False
    max_age: float | None = None
    is_local: bool = False


NONE = Directives()

# attribute of a context, and of a target -> directive
_ATTRIBUTES = {
    "no_cache": "no_cache",
    "no_cache_store": "no_store",
    "only_if_cached": "only_if_cached",
    "stale_if_error": "stale_if_error",
    "must_revalidate": "must_revalidate",
}
_NAMES = {
    "no-cache": "no_cache",
    "no-store": "no_store",
    "only-if-cached": "only_if_cached",
    "stale-if-error": "stale_if_error",
    "must-revalidate": "must_revalidate",
}
_known: dict[str, Directives] = {}


def parse_directives(text: str) -> Directives:
    """The value of `Cache-Control` of a request. What is unknown or malformed is ignored.

    >>> parse_directives("no-cache, Max-Age=5").max_age, parse_directives('max-age="7", only-if-cached').only_if_cached
    (5.0, True)
    """
    found = _known.get(text)
    if found is None:
        given: dict[str, Any] = {}
        for part in text.split(","):
            name, _, value = part.strip().partition("=")
            name = name.strip().lower()
            if name == "max-age":
                seconds = value.strip().strip('"')
                if seconds.isascii() and seconds.isdigit():
                    given["max_age"] = float(seconds[:15])
            elif name in _NAMES:
                given[_NAMES[name]] = True
        found = Directives(**given) if given else NONE
        if len(text) <= _LONGEST:
            if len(_known) >= _REMEMBERED:
                _known.clear()
            _known[text] = found
    return found


def directives_of(context: Any, target: Any = None) -> Directives:
    """What applies to a call. `context`: a request, a `Context`, whatever holds a transaction, or None. `target`: the call's, whose options win."""
    found = NONE
    if type(context) is Request:
        text = context.block.fields.get("cache-control")
        if text is not None:
            found = parse_directives(text)
    state = getattr(context, "_state", None)
    if state is not None:
        found = _with(found, {name: getattr(state, attribute) for attribute, name in _ATTRIBUTES.items()} | {"max_age": state.max_age})
    details = None if target is None else target.details
    if details is not None and details.options:
        found = _with(found, {name: details.options.get(attribute) for attribute, name in _ATTRIBUTES.items()})
        if details.options.get("ensure_loaded") is False:
            found = replace(found, is_local=True)
    return found


def _with(found: Directives, given: dict[str, Any]) -> Directives:
    set_ = {name: value for name, value in given.items() if value is not None}
    if not set_:
        return found
    for name, value in set_.items():
        if name != "max_age":
            set_[name] = bool(value)
        elif isinstance(value, bool) or not isinstance(value, int | float):
            raise TypeError(f"max_age must be a number of seconds, not {type(value).__name__}")
    return replace(found, **set_)
