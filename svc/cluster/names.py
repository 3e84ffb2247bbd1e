"""Names in the engine: of streams and subjects (spec: replication §1).

A name of a database or a node becomes a token: letters and digits of ASCII and `-` stand for themselves, any other byte of its UTF-8 is `_` and two
hexadecimal digits. So two names never share a token, a token never has two `_` in a row, and `__` may stand between the two of a stream's name.
"""

from __future__ import annotations

import re

MAX_STREAM_NAME = 255  # bytes; also of the directory that the engine makes for it
_OTHER = re.compile(rb"[^A-Za-z0-9-]")
_ESCAPE = re.compile(rb"_([0-9a-f]{2})")
_TOKEN = re.compile(r"(?:[A-Za-z0-9-]|_[0-9a-f]{2})+", re.ASCII)
_STREAM = "L__"
_BETWEEN = "__"


def token(name: str) -> str:
    """A name as a part of a subject. Raises ValueError for what cannot be one: empty, not encodable as UTF-8, too long.

    >>> token("shop"), token("my_shop.2"), token("Süß")
    ('shop', 'my_5fshop_2e2', 'S_c3_bc_c3_9f')
    """
    if not name:
        raise ValueError("a name must not be empty")
    found = _OTHER.sub(lambda byte: b"_%02x" % byte[0][0], name.encode()).decode()
    if len(found) > MAX_STREAM_NAME:
        raise ValueError(f"{name[:40]!r}... is too long for the engine: more than {MAX_STREAM_NAME} bytes once it is escaped")
    return found


def name_of(found: str) -> str:
    """The name that has become this token. Raises ValueError if `token` does not make it.

    >>> name_of("my_5fshop_2e2")
    'my_shop.2'
    >>> name_of("_41")  # A stands for itself
    Traceback (most recent call last):
    ValueError: '_41' is no token
    """
    if _TOKEN.fullmatch(found):
        try:
            name = _ESCAPE.sub(lambda byte: bytes((int(byte[1], 16),)), found.encode()).decode()
            if token(name) == found:
                return name
        except ValueError:
            pass
    raise ValueError(f"{found[:300]!r} is no token")


def stream_name(database: str, node: str) -> str:
    """Of the stream with what a node has written to a database. Raises ValueError as `token`, and if both together are too long.

    >>> stream_name("data", "node-a.example.org")
    'L__data__node-a_2eexample_2eorg'
    """
    name = f"{_STREAM}{token(database)}{_BETWEEN}{token(node)}"
    if len(name) > MAX_STREAM_NAME:
        raise ValueError(
            f"the names of database {database!r} and node {node!r} are too long for a stream: its name would have {len(name)} bytes,"
            f" and {MAX_STREAM_NAME} are possible. Other characters than letters, digits and - take 3 for each of their bytes"
        )
    return name


def stream_owner(name: str) -> tuple[str, str] | None:
    """(database, node) whose stream it is; None: it is none of ours.

    >>> stream_owner("L__data__node-a"), stream_owner("ORDERS")
    (('data', 'node-a'), None)
    """
    if not name.startswith(_STREAM) or len(name) > MAX_STREAM_NAME:
        return None
    try:
        database, node = map(name_of, name.removeprefix(_STREAM).split(_BETWEEN))
    except ValueError:
        return None
    return database, node


def subject(kind: str, *names: str) -> str:
    """What is said under `svc.<kind>` of a database, a node, or both. Raises ValueError as `token`.

    >>> subject("log", "data", "node-a"), subject("hello", "node-a")
    ('svc.log.data.node-a', 'svc.hello.node-a')
    """
    return ".".join(("svc", kind, *map(token, names)))


def subject_names(kind: str, found: str) -> tuple[str, ...] | None:
    """The names in a subject of this kind; None: it is none.

    >>> subject_names("log", "svc.log.data.node-a"), subject_names("log", "svc.hello.node-a")
    (('data', 'node-a'), None)
    """
    start = f"svc.{kind}."
    if not found.startswith(start):
        return None
    try:
        return tuple(map(name_of, found.removeprefix(start).split(".")))
    except ValueError:
        return None
