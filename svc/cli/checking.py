"""`svc check`: verify the databases of a root directory, of a stopped or a running server."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from svc.cli.arguments import FAILED, Arguments, UsageError, installation_of, named_directory

if TYPE_CHECKING:
    from pathlib import Path

    from svc.store.integrity.check import CheckReport


def check(arguments: Arguments) -> int:
    from svc.errors import ConfigError
    from svc.store.integrity.check import check_database

    if len(arguments.words) > 1:
        raise UsageError("svc check takes one directory.")
    try:
        databases, blob_paths = _databases(arguments)
    except ConfigError as error:
        raise UsageError(f"Error: {error}") from error
    faults = 0
    for path in databases:
        report = check_database(path, _show_progress if sys.stderr.isatty() else lambda what, done, total: None, blob_paths)
        print(f"{path.name}: {'fine' if report.ok else _number(report.total, 'fault')}; {_counts(report)}")
        for sentence in report.findings:
            print(f"  {sentence}")
        if report.total > len(report.findings):
            print(f"  ... and {report.total - len(report.findings)} more")
        for sentence in report.notes:
            print(f"  Note: {sentence}")
        faults += report.total
    return FAILED if faults else 0


def _number(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def _show_progress(what: str, done: int, total: int) -> None:
    print(f"\r\x1b[K{what} {done} of {total}\r", end="", file=sys.stderr, flush=True)


def _counts(report: CheckReport) -> str:
    records = sum(report.records.values())
    return f"{len(report.records)} tables, {records} records, {report.index_entries} index entries, {report.log_entries} log entries"


def _databases(arguments: Arguments) -> tuple[list[Path], tuple[Path, ...]]:
    """The directories of the databases: of the root directory that is named, of the usual one, or of a storage directory. And those of blobs."""
    from svc.config import Config
    from svc.config.build import CONFIG_FILE
    from svc.config.document import read_document

    directory = named_directory(arguments.words[0]) if arguments.words else installation_of(arguments).root
    file = directory / CONFIG_FILE
    if file.is_file():
        config = Config.from_document(read_document(file), directory)
        directories = {config.storage.path, *(value for name, value in config.values.items() if name.startswith("databases."))}
        blob_paths = config.storage.blob_paths
    else:
        directories = {directory / "database" if (directory / "database").is_dir() else directory}
        blob_paths = ()
    found = [
        entry
        for storage in sorted(directories)
        if storage.is_dir()
        for entry in sorted(storage.iterdir())
        if (entry / "data.mdb").is_file()
    ]
    if not found and (directory / "data.mdb").is_file():
        found = [directory]
    if not found:
        raise UsageError(f"There are no databases in {directory}")
    return found, blob_paths
