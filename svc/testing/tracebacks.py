"""What pytest shows of a failure: the line of the test, and not how a request is made."""

from __future__ import annotations

from typing import Any

_OF_THE_TEST = (AssertionError, LookupError, TypeError, ValueError, RuntimeError)


def is_hidden(excinfo: Any) -> bool:
    """To be the `__tracebackhide__` of a module. The frames of what is no fault of a test are shown, as all are with `--full-trace`."""
    return isinstance(excinfo.value, _OF_THE_TEST)
