"""A server in memory that crashes as `kill -9` has it, and is there again."""

from __future__ import annotations

import shutil
from base64 import b64encode
from collections.abc import Callable
from pathlib import Path
from typing import Literal

from svc.clock import FakeClock
from svc.testing.instance import Instance
from svc.testing.prepared import SUPER_USER, copy_root, place_root

PATIENCE = 60.0  # real seconds in which a turn of the loop must end
VERIFIED = 1e6  # seconds of the clock: no password is hashed
AUTHORIZATION = f"Basic {b64encode(f'{SUPER_USER}:'.encode()).decode()}"
Moment = Literal["between turns", "before the commit", "after the commit"]
MOMENTS: tuple[Moment, ...] = ("between turns", "before the commit", "after the commit")
BEGINNING = FakeClock()  # of all simulations; one object: a root is prepared for it once


class CrashableServer:
    """`instance`: the one that runs now; another after each crash. Nothing of its memory outlives that: the files are copied as they are at that moment, before
    the old one is ended, and the new one is opened over the copy."""

    def __init__(self, base: Path, application: Path) -> None:
        """`base`: an empty directory, for the roots."""
        self._base = base
        self._application = application
        self._count = 0
        place_root(self._root, BEGINNING)
        self.instance = self._open(BEGINNING.wall())

    @property
    def _root(self) -> Path:
        return self._base / f"root{self._count}"

    def _open(self, wall: float) -> Instance:
        instance = Instance(self._application, {"authentication_cacheTTL": VERIFIED}, now=wall, root=self._root, patience=PATIENCE)
        accounts = instance.server.accounts
        user = accounts.directory.get_user(SUPER_USER)
        assert user is not None
        accounts.verifier.remember(accounts.verifier.digest(AUTHORIZATION), user, None, VERIFIED)
        return instance

    def run(self, polls: float, seconds: float = 0.0) -> bool:
        """So many turns of the loop, in which so many seconds pass where nothing else happens. Whether nothing more happens by itself."""
        instance = self.instance
        instance.interface.make_current()
        instance.loop.expect(seconds, patience=PATIENCE, waits_for_calls=False, max_polls=polls)
        while not instance.loop.turn_until(None):
            pass
        return instance.loop.turns.is_idle

    def crash(self, moment: Moment, on_crash: Callable[[], None]) -> None:
        """At `moment`, in the next turn that has one; else after it. `on_crash`: called then; what clients are sent from then on is lost."""
        old = self.instance
        store = old.server.store
        self._count += 1
        copied = False

        def take() -> None:
            nonlocal copied
            if not copied:
                copied = True
                on_crash()
                copy_root(old.server.config.root, self._root)

        if moment != "between turns":
            commit = store.commit_turn

            def commit_turn() -> None:
                if moment == "before the commit":
                    take()
                commit()
                take()

            store.commit_turn = commit_turn  # type: ignore[method-assign]
            self.run(1)
        take()
        wall = old.clock.wall()
        old.close()
        shutil.rmtree(old.server.config.root)
        self.instance = self._open(wall)

    def close(self) -> None:
        self.instance.close()
