"""A file as text in a form, and back without a change that nobody wanted: its ends of lines, what somebody else has changed meanwhile (spec: console §12)."""

from __future__ import annotations

import hashlib
from asyncio import sleep
from dataclasses import dataclass
from difflib import unified_diff

from svc.pages.cells import shortened, shown

MOST_EDITED = 1 << 20  # bytes of a file that is shown in a form
MOST_COMPARED = 2000  # lines between the first and the last one that differ
MOST_SHOWN = 1000  # lines of a difference
LF, CRLF, MIXED = "lf", "crlf", "mixed"

_PIECE = 1 << 16  # characters that are looked at in one step
_LONGEST = 500  # characters of a line in a difference


@dataclass(slots=True)
class EditedText:
    """`text`: with LF at the ends of its lines, None: the file is none that can be edited. `ends`: those of the file. `version`: of its content."""

    text: str | None
    ends: str
    version: str
    size: int


def edited_text(content: bytes) -> EditedText:
    """
    >>> edited_text(b"a\\r\\nb\\r\\n").ends, edited_text(b"a\\nb\\r").ends, edited_text(b"\\x00").text
    ('crlf', 'mixed', None)
    """
    version = version_of(content)
    text: str | None = None
    if len(content) <= MOST_EDITED and b"\0" not in content:
        try:
            text = content.decode()
        except UnicodeDecodeError:
            text = None
    if text is None:
        return EditedText(None, LF, version, len(content))
    pairs, returns, feeds = text.count("\r\n"), text.count("\r"), text.count("\n")
    ends = LF if not returns else CRLF if pairs == returns == feeds else MIXED
    return EditedText(with_feeds(text), ends, version, len(content))


def version_of(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def with_feeds(text: str) -> str:
    """With LF at the ends of lines: forms have CRLF.

    >>> with_feeds("a\\r\\nb\\rc")
    'a\\nb\\nc'
    """
    return text.replace("\r\n", "\n").replace("\r", "\n")


def with_ends(text: str, ends: str) -> str:
    """The text of a form with the ends of lines of its file."""
    text = with_feeds(text)
    return text.replace("\n", "\r\n") if ends == CRLF else text


async def has_unseen(text: str) -> bool:
    """Whether characters are in it that are not seen, or change how the text around them is shown."""
    if text.isascii():
        return False
    for start in range(0, len(text), _PIECE):
        piece = text[start : start + _PIECE]
        if shown(piece) != piece:
            return True
        await sleep(0)
    return False


def difference(before: str, after: str) -> list[tuple[str, str]] | None:
    """What differs: ("del", "ins" or "", line). None: too much of it. Blocks.

    >>> difference("a\\nb\\nc", "a\\nx\\nc")
    [('', 'a'), ('del', 'b'), ('ins', 'x'), ('', 'c')]
    """
    old, new = before.split("\n"), after.split("\n")
    first = 0
    while first < min(len(old), len(new)) and old[first] == new[first]:
        first += 1
    last = 0
    while last < min(len(old), len(new)) - first and old[-1 - last] == new[-1 - last]:
        last += 1
    if max(len(old), len(new)) - first - last > MOST_COMPARED:
        return None
    around = max(first - 3, 0), max(last - 3, 0)
    old, new = old[around[0] : len(old) - around[1]], new[around[0] : len(new) - around[1]]
    found = list(unified_diff(old, new, n=3, lineterm=""))[2:]
    kinds = {"-": "del", "+": "ins"}
    return [(kinds.get(line[:1], ""), shortened(line[1:], _LONGEST)) for line in found[:MOST_SHOWN] if not line.startswith("@@")]
