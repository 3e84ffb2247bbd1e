"""Tables, listeners and addresses belong to the thread of the event loop: code on another one is told so, before it disturbs anything
(spec: configuration §9.4)."""

from __future__ import annotations

import threading


class _Here(threading.local):
    """`is_helper`: this is another thread: of `run_in_thread`, of a web framework, of the application."""

    def __init__(self) -> None:
        self.is_helper = threading.get_ident() != threading.main_thread().ident


here = _Here()


def note_loop_thread() -> None:
    """This is the thread of an event loop with an instance."""
    here.is_helper = False


_FORKED_CHILD = (
    "this process was forked by code of an application: it has neither tables nor ports of svc. Read what it needs before and pass it as arguments,"
    " write what it returns afterwards"
)
_reasons: list[str] = []


def note_forked_child() -> None:
    """This process is a child of the one that has the instance."""
    here.is_helper = True
    _reasons[:] = [_FORKED_CHILD]


USING_TABLES = (
    "tables cannot be read or written on this thread: a function of run_in_thread, and a plain function of a web framework, runs beside the event loop."
    " Read what it needs before and pass it as arguments, write what it returns afterwards, or make it async"
)
REGISTERING = (
    "nothing can be registered on this thread: a function of run_in_thread, and a plain function of a web framework, runs beside the event loop."
    " Register before or afterwards, or make it async"
)


def refuse_helper(message: str = USING_TABLES) -> None:
    """Raise RuntimeError on a helper thread, and in a forked child."""
    if here.is_helper:
        raise RuntimeError(*_reasons or (message,))
