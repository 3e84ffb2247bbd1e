"""Which formats of databases this program reads, and what each of them added (spec: schema-and-store §15).

A database has the number of its format in `$definitions`. A program that knows none so high refuses it. So whatever a program may write that the one before
cannot read needs another number here, and a fixture in tests/fixtures/formats that is made by the program before.

    1   the first
    2   entries of the log may be packed, have a trace id, or what a message of MQTT said beside its payload (`log.entries`)
    3   only databases in which other nodes take part: entries of several nodes, merged and copied ones (`log.entries`), the store `$replication`

Up to now nothing of an older one has to be converted: it gets the number of this format when it is opened, before anything of it is written.
"""

from __future__ import annotations

STORE_FORMAT = 2
REPLICATED_FORMAT = 3
OLDEST = 1


def encode_format(number: int = STORE_FORMAT) -> bytes:
    return str(number).encode()


def format_problem(found: bytes | None) -> str | None:
    """Why a database of this format cannot be read; None if it can.

    >>> format_problem(b"1"), format_problem(b"4")
    (None, 'its format is 4, and this version of svc reads 1 to 3')
    """
    if found is not None and found.isdigit() and OLDEST <= int(found) <= REPLICATED_FORMAT:
        return None
    return f"its format is {'unknown' if found is None else found.decode(errors='replace')}, and this version of svc reads {OLDEST} to {REPLICATED_FORMAT}"
