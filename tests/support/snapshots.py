"""What happens to held snapshots, at a moment that a test chooses; and LMDB's reader slots."""

from __future__ import annotations

import os

from svc.store import Store
from svc.store.env import Environment


def give_up_snapshots(store: Store) -> None:
    """As if very many were held: all are given up."""
    for database in store.databases.values():
        while store.snapshots.give_up_oldest(database):
            pass
    store.snapshots.let_go()


def reader_slots(environment: Environment) -> int:
    """How many of LMDB's reader slots this process occupies: one for each read transaction whose object exists, ended or not, and for each that
    is kept for reuse."""
    own = str(os.getpid())
    return sum([line.split()[:1] == [own] for line in environment._env.readers().splitlines()])
