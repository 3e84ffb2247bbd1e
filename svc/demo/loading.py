"""Fills the demo's data directory."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from svc.apps.schema_files import load_schema_files
from svc.demo.data import APP, TABLES, iter_records
from svc.store import Store, Table
from svc.store.writing.bulk_write import load_records

DATABASE = Path("database")  # below the root directory: the default of `storage.path`


class NotOurs(Exception):
    """The directory holds something else."""


def is_filled(root: Path) -> bool:
    """Whether `root` is a data directory. Raises NotOurs if it holds other files, so that none of them is ever touched."""
    if (root / DATABASE).is_dir():
        return True
    if root.exists() and (not root.is_dir() or any(root.iterdir())):
        raise NotOurs(f"{root} is not a data directory of svc; name an empty or a new one")
    return False


def make_directory(root: Path, console: Console | None = None) -> None:
    """Load all records into a new directory and give it the name `root`, which must not exist or be empty."""
    root.parent.mkdir(parents=True, exist_ok=True)
    # Beside it, because only a rename on one file system is all or nothing.
    unfinished = Path(tempfile.mkdtemp(prefix=f"{root.name}-", dir=root.parent))
    try:
        store = Store(unfinished / DATABASE)
        try:
            fill(store, console or Console(stderr=True))
        finally:
            store.close()
        unfinished.rename(root)
    except BaseException:
        shutil.rmtree(unfinished, ignore_errors=True)
        raise


def fill(store: Store, console: Console) -> None:
    """Define the tables of the application and load their records, with a bar on `console`."""
    tables = define_tables(store)
    columns = TextColumn("{task.description:<14}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn()
    with Progress(*columns, console=console) as progress:
        task = progress.add_task("", total=sum(TABLES.values()))
        done = 0
        for name, count in TABLES.items():
            progress.update(task, description=name)
            for loaded in load_records(tables[name], iter_records(name)):
                progress.update(task, completed=done + loaded)
            done += count


def define_tables(store: Store) -> dict[str, Table]:
    """The tables that the application's schema declares, by name."""
    files = [(path.name, path.read_text("utf-8")) for path in sorted(APP.glob("*.graphql"))]
    schema = load_schema_files(files, {})
    assert not schema.errors, schema.errors
    return {definition.name: store.open_database(definition.database).define_table(definition) for definition in schema.definitions}
