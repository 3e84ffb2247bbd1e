"""Tables belong to the thread of the event loop: code on a helper thread is told so, before it disturbs anything (spec: configuration §9.4)."""

from __future__ import annotations

import threading


class _Here(threading.local):
    """`is_helper`: this thread was started by `run_in_thread`."""

    is_helper = False


here = _Here()


def refuse_helper() -> None:
    """Raise RuntimeError on a helper thread."""
    if here.is_helper:
        raise RuntimeError(
            "a function of run_in_thread cannot read or write tables: it runs beside the event loop. Read what it needs before and pass it as"
            " arguments, and write what it returns afterwards"
        )
