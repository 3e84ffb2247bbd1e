"""What `/metrics` reads of the instance at the time of the request: process, event loop, store, jobs, applications (spec: analytics §10)."""

from __future__ import annotations

import os
import platform
import sys
from collections.abc import Callable, Generator
from typing import TYPE_CHECKING, Final

from svc import __version__
from svc.analytics.exposition import COUNTER, GAUGE, INFO, Counter, Family, Gauge, Info, Series, label_text
from svc.analytics.process_figures import ProcessFigures
from svc.analytics.totals import OTHER
from svc.apps.status import ERROR
from svc.errors import Problem
from svc.store import Store, Table
from svc.store.backup.source import DATA_FILE
from svc.store.database import Database
from svc.store.env import Txn

if TYPE_CHECKING:
    from svc.operations.node import Node

_TABLES_AT_ONCE: Final = 50  # measured in one step: about 0.2 ms

OF_THE_NODE: Final = frozenset(
    (
        b"svc_volume_size_bytes", b"svc_volume_available_bytes", b"svc_scheduled_jobs", b"svc_database_file_bytes", b"svc_database_used_bytes",
        b"svc_database_log_bytes", b"svc_database_log_entries", b"svc_table_bytes", b"svc_table_records",
    )
)  # fmt: skip
"""Families about what all instances share; what the one says that is asked stands for all."""


def process_families(figures: ProcessFigures) -> list[Family]:
    """The names are those that all clients of Prometheus use."""
    memory = figures.memory
    found = [
        _counter("process_cpu_seconds", "Processor time, user and system.", figures.cpu, "seconds", figures.started),
        _gauge("process_start_time_seconds", "Start of the process, since 1970.", figures.started, "seconds"),
        _gauge("process_resident_memory_bytes", "Resident memory.", memory["rss"], "bytes"),
        _gauge(
            "process_virtual_memory_bytes", "Virtual memory; most of it is the reserved room of the databases.", figures.virtual, "bytes"
        ),
        _gauge("process_open_fds", "Open file descriptors.", figures.open_files),
        _gauge("process_max_fds", "Limit of file descriptors.", figures.max_files),
        _gauge("svc_memory_heap_bytes", "Resident memory that is no file's.", memory["heapTotal"], "bytes"),
        _gauge("svc_memory_heap_used_bytes", "The part of it that is in use.", memory["heapUsed"], "bytes"),
    ]
    if figures.volume is not None:
        found += [
            _gauge("svc_volume_size_bytes", "Size of the volume of the databases.", figures.volume["size"], "bytes"),
            _gauge("svc_volume_available_bytes", "Space on it that can be used.", figures.volume["available"], "bytes"),
        ]
    return found


def instance_families(node: Node, *, is_ready: bool) -> list[Family]:
    """What is known without reading the store."""
    store = node.store
    versions = label_text([("version", __version__), ("python", platform.python_version()), ("implementation", sys.implementation.name)])
    found = [
        Family("svc_build", INFO, "Versions of the program and its interpreter.", [Info(versions)]),
        _gauge("svc_ready", "1 while requests are welcome, as GET /ready says.", int(is_ready)),
        _counter("svc_store_commits", "Commits to databases.", store.commits),
        _counter("svc_store_failed_commits", "Commits that failed, and whose writes were undone.", store.failed_commits),
        _counter("svc_store_transactions", "Transactions that were committed; several may share a commit.", store.transactions),
        _gauge("svc_store_pending", "1 while writes wait for the commit of the turn.", int(store.has_pending)),
        _gauge("svc_store_held_snapshots", "Snapshots of results that are being read.", len(store.snapshots)),
        _gauge("svc_store_cache_bytes", "Memory of the index caches.", store.caches.used, "bytes"),
        _gauge("svc_store_cache_limit_bytes", "Most that they may take.", store.caches.budget, "bytes"),
        _gauge("svc_jobs", "Jobs of operations that have not ended.", len(node.jobs)),
        Family(
            "svc_application_healthy",
            GAUGE,
            "0 while a part of an application could not be loaded.",
            [Gauge(label_text([("application", app.name)]), int(app.status != ERROR)) for app in node.apps],
        ),
    ]
    found += node.more_families()
    if node.scheduler is not None:
        found += [
            _gauge("svc_scheduled_jobs", "Jobs that applications have scheduled.", len(node.scheduler)),
            _gauge("svc_scheduled_jobs_running", "Those that run.", node.scheduler.running),
        ]
    if node.analytics is not None:
        idle, active = node.analytics.load
        times = [Counter('state="idle"', None, idle), Counter('state="active"', None, active)]
        found.append(Family("svc_event_loop_seconds", COUNTER, "Time that the event loop has waited and worked.", times, "seconds"))
    return found


# --- the store --------------------------------------------------------------------------------------------------------------------------

_OF_DATABASES: Final[tuple[tuple[str, str, str, Callable[[Store, Database, Txn], int]], ...]] = (
    (
        "svc_database_file_bytes", "Size of the file of a database.", "bytes",
        lambda store, database, txn: os.stat(store.path / database.name / DATA_FILE).st_size,
    ),
    ("svc_database_used_bytes", "The part of the file that has been used.", "bytes", lambda store, database, txn: database.env.used_bytes()),
    ("svc_database_log_bytes", "Size of the transaction log.", "bytes", lambda store, database, txn: database.log.size(txn)),
    ("svc_database_log_entries", "Entries of the transaction log.", "", lambda store, database, txn: database.log.count(txn)),
    ("svc_database_readers", "Read transactions of this process.", "", lambda store, database, txn: database.env.open_snapshots()),
    ("svc_database_waiting_writers", "Writes that wait for a long one.", "", lambda store, database, txn: len(store.queue_of(database))),
)  # fmt: skip
_OF_TABLES: Final[tuple[tuple[str, str, str, Callable[[Table, Txn], int]], ...]] = (
    ("svc_table_bytes", "Size of the records of a table.", "bytes", lambda table, txn: table.size(txn)),
    ("svc_table_records", "Records of a table, with those that have expired and are not yet removed.", "",
     lambda table, txn: table.entry_count(txn)),
)  # fmt: skip


def store_families(store: Store, max_tables: int) -> Generator[None, None, list[Family]]:
    """Sizes of databases and tables, measured in short steps. Tables beyond `max_tables` count as one, whose database and name are `other`; a database
    that cannot be read is left out."""
    of_databases: list[list[Series]] = [[] for _ in _OF_DATABASES]
    of_tables: list[list[Series]] = [[] for _ in _OF_TABLES]
    others = [0 for _ in _OF_TABLES]
    measured = 0
    for database in list(store.databases.values()):
        yield
        if not _is_open(store, database):
            continue
        try:
            figures = [read(store, database, database.snapshot()) for _, _, _, read in _OF_DATABASES]
        except (Problem, OSError):
            continue
        labels = label_text([("database", database.name)])
        for series, figure in zip(of_databases, figures, strict=True):
            series.append(Gauge(labels, figure))
        for table in list(database.tables.values()):
            if measured % _TABLES_AT_ONCE == _TABLES_AT_ONCE - 1:
                yield
            sizes = _sizes(store, database, table)
            if sizes is None:
                continue
            measured += 1
            if measured > max_tables:
                others = [other + size for other, size in zip(others, sizes, strict=True)]
                continue
            labels = label_text([("database", database.name), ("table", table.name)])
            for series, size in zip(of_tables, sizes, strict=True):
                series.append(Gauge(labels, size))
    if measured > max_tables:
        labels = label_text([("database", OTHER), ("table", OTHER)])
        for series, size in zip(of_tables, others, strict=True):
            series.append(Gauge(labels, size))
    rows = [*((name, help, unit) for name, help, unit, _ in _OF_DATABASES), *((name, help, unit) for name, help, unit, _ in _OF_TABLES)]
    return [Family(name, GAUGE, help, series, unit) for (name, help, unit), series in zip(rows, [*of_databases, *of_tables], strict=True)]


def _is_open(store: Store, database: Database) -> bool:
    """False: it was dropped between two steps, or was lost after a failed write."""
    return store.databases.get(database.name) is database and not database.env.has_stopped


def _sizes(store: Store, database: Database, table: Table) -> list[int] | None:
    """None: it was dropped between two steps, or cannot be read."""
    if not _is_open(store, database) or database.tables.get(table.name) is not table:
        return None
    try:
        txn = database.snapshot()
        return [read(table, txn) for _, _, _, read in _OF_TABLES]
    except Problem:
        return None


# --- families of one series -------------------------------------------------------------------------------------------------------------


def _gauge(name: str, help: str, value: float, unit: str = "") -> Family:
    return Family(name, GAUGE, help, [Gauge("", value)], unit)


def _counter(name: str, help: str, value: float, unit: str = "", created: float | None = None) -> Family:
    return Family(name, COUNTER, help, [Counter("", created, value)], unit)
