"""The address that was probably meant where no resource is: names are compared without their case and a plural's `s` (spec: http §5)."""

from __future__ import annotations

from urllib.parse import unquote

from svc.messages import Request
from svc.pages.links import is_readable
from svc.resources import Resources

_LONGEST = 200  # characters of a path that is compared


def near_address(resources: Resources, request: Request) -> str:
    """` (did you mean /Product/?)`; "" if there is nothing alike that the caller may read."""
    path = request.pathname
    if len(path) > _LONGEST:
        return ""
    segments = unquote(path, errors="replace").split("/")[1:]
    wanted = [_folded("/".join(segments[:count])) for count in range(1, len(segments) + 1)]
    for registration in resources.values():
        depth = registration.path.count("/")
        if registration.path and depth < len(wanted) and _folded(registration.path) == wanted[depth] and is_readable(registration, request):
            return f" (did you mean {resources.path_to(registration.path, '')}?)"
    return ""


def _folded(name: str) -> str:
    return name.casefold().removesuffix("s")
