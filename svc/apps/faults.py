"""What answers at the addresses of an application that could not be loaded: 503, for a super user with the reason (spec: configuration §9.2).

The addresses are read from the text of what failed, as far as it shows them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

from svc.apps.reading import read_limited
from svc.apps.status import EntryStatus
from svc.resources import Registration, Resource, make_registration

MAX_ADDRESSES = 1000  # of one entry
MAX_SHOWN = 1000  # characters of a reason
MAX_TEXT = 1 << 20  # bytes of a file that are looked at

_CLASS = re.compile(r"^class[ \t]+([A-Za-z][A-Za-z0-9_]*)[ \t]*\(", re.MULTILINE)
_ARGUMENTS = r'\((?:[^)"]|"(?:[^"\\\n]|\\.){0,2000}+"){0,2000}+\)'  # parentheses in strings are no end
_TYPE = re.compile(rf"\btype[ \t]+([A-Za-z_][A-Za-z0-9_]*)((?:\s*@\w+(?:{_ARGUMENTS})?)*)")
_EXPORT = re.compile(r'@export\b(?:\([^)]{0,2000}?\bname\s*:\s*"([^"]*)")?')


class Unavailable(Resource):
    """A resource that could not be loaded: its registration has the reason, which is the answer to every request."""


def text_of(path: Path) -> str:
    """The text of a file with a fault, "" if it cannot be read."""
    try:
        return read_limited(path, MAX_TEXT).decode(errors="replace")
    except (OSError, ValueError):
        return ""


def schema_addresses(text: str) -> list[str]:
    """The addresses of the exported types in the text of a schema, whatever else is wrong with it.

    >>> schema_addresses('type A @table @export { x: Int } type B @table @export(name: "shop/b") { y: Oops } type C @table { z: Int }')
    ['A', 'shop/b']
    >>> schema_addresses('type A @table @allow(read: "x==1|(y==2&z==\\\\"3)\\\\")") @export { x: Int }')
    ['A']
    """
    found = []
    for match in _TYPE.finditer(text):
        export = _EXPORT.search(match[2])
        if export is not None:
            found.append((export[1] or match[1]).strip("/"))
    return found


def class_addresses(text: str, directory: str) -> list[str]:
    """Those of the classes in the text of a module. `directory`: "" or "shop/".

    >>> class_addresses("class Seat(tables.Seat):\\n    def get(self:\\nclass _Own(Resource): pass", "shop/")
    ['shop/Seat']
    """
    return [directory + match[1] for match in _CLASS.finditer(text)]


def reason_of(application: str, status: EntryStatus) -> str:
    """The answer at the addresses of an entry that has failed."""
    reason = "; ".join(status.messages)
    shown = reason if len(reason) <= MAX_SHOWN else f"{reason[:MAX_SHOWN]}..."
    return f"The application '{application}' could not be loaded: {shown}"


def fault_registrations(addresses: Iterable[str], application: str, status: EntryStatus, owner: object) -> list[Registration]:
    """`status`: of the entry that has failed."""
    fault = reason_of(application, status)
    found: list[Registration] = []
    for address in dict.fromkeys(addresses):
        try:
            found.append(make_registration(address, Unavailable, owner=owner, load_fault=fault))
        except ValueError:
            continue
    return found[:MAX_ADDRESSES]
