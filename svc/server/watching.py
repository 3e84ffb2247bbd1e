"""A thread that says which files have changed (spec: configuration §9.2).

Only the directories that are named are watched, not those below: an application may have ten thousands of directories of packages beside its own. When the
list changes they are all watched once more. What happens between two of these times is not told, so the first thing said after each beginning is that
everything is to be looked at.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any

POLL_STEPS = 20  # of the other way's pauses: between two looks at all files
MIN_POLL = 0.3  # seconds
RETRY = 0.5  # seconds until a directory that has gone is looked for again
MAX_TOGETHER = 0.4  # seconds in which changes that go on are told together
JOIN_SECONDS = 5.0

Watch = Callable[..., Iterator[set[tuple[Any, str]]]]


class FileWatcher:
    """`on_changes(paths)`: what has been added, changed or removed, absolute; None: look at everything. `on_fault(text)`: why it polls from now on, or has
    ended. Both are called on the thread."""

    def __init__(
        self,
        on_changes: Callable[[set[str] | None], object],
        on_fault: Callable[[str], object],
        *,
        pause: float,
        watch: Watch | None = None,
    ) -> None:
        """`pause`: seconds between two looks at what the operating system has told; a change is told after one or two of them."""
        self._on_changes = on_changes
        self._on_fault = on_fault
        self._pause_ms = max(1, int(pause * 1000))
        self._watch = watch
        self._directories: tuple[str, ...] = ()
        self._polls = False
        self._is_stopped = False
        self._again = threading.Event()  # the list has changed, or this ends
        self._thread: threading.Thread | None = None

    def watch(self, directories: Sequence[str], *, polls: bool = False) -> None:
        """Watch these from now on. `polls`: nothing tells of their changes."""
        self._directories = tuple(directories)
        self._polls = self._polls or polls
        self._again.set()
        if self._thread is None and not self._is_stopped:
            self._thread = threading.Thread(target=self._run, name="watch", daemon=True)
            self._thread.start()

    def stop(self) -> None:
        """The thread ends soon."""
        self._is_stopped = True
        self._again.set()

    def join(self) -> None:
        """Wait for that. A thread that runs while the interpreter ends would crash it."""
        if self._thread is not None:
            self._thread.join(JOIN_SECONDS)

    # --- the thread ------------------------------------------------------------------------------------------------------------------

    def _run(self) -> None:
        try:
            if self._watch is None:
                from watchfiles import watch

                self._watch = watch
        except ImportError as error:  # there is no build of it for this platform
            self._on_fault(f"changed files are not noticed: {error}")
            return
        logging.getLogger("watchfiles").setLevel(
            logging.WARNING
        )  # it logs each change, and there is one for each line of a log below an application
        while not self._is_stopped:
            self._again.clear()
            try:
                self._watch_once(self._watch, self._directories)
            except FileNotFoundError:  # one of them has gone since it was listed
                self._on_changes(None)
                self._again.wait(RETRY)
            except Exception as error:
                if self._polls:
                    self._on_fault(f"changed files are not noticed any more: {error}")
                    return
                self._polls = True
                self._on_fault(
                    f"the system cannot tell about changed files ({error}), so they are looked for every {self._poll_seconds:g} s;"
                    " the limits of Linux are fs.inotify.max_user_watches and fs.inotify.max_user_instances"
                )

    def _watch_once(self, watch: Watch, directories: Sequence[str]) -> None:
        """Until the list changes, or this ends."""
        has_begun = False
        for changes in watch(
            *directories,
            watch_filter=None,
            debounce=int(MAX_TOGETHER * 1000),
            step=self._pause_ms,
            rust_timeout=self._pause_ms,
            yield_on_timeout=True,
            stop_event=self._again,
            raise_interrupt=False,
            force_polling=self._polls or None,
            poll_delay_ms=int(self._poll_seconds * 1000),
            recursive=False,
            ignore_permission_denied=True,
        ):
            if not has_begun:
                has_begun = True
                self._on_changes(None)
            elif changes:
                self._on_changes({path for _, path in changes})

    @property
    def _poll_seconds(self) -> float:
        return max(MIN_POLL, self._pause_ms * POLL_STEPS / 1000)
