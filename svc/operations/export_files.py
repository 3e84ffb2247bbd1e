"""The file of an export: written under another name, given its own when it is whole and on the disk (spec: operations §4).

A reader of the directory finds a whole file or none, and an older one of the same name until then. `ExportFile` blocks and belongs on a helper
thread; `write_rows` gives it the rows of a search, found and encoded on the loop a slice at a time.
"""

from __future__ import annotations

import asyncio
import os
import stat
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

from svc.content.content_type import ANY_SHAPE, ContentType, RowWriter, Shape
from svc.content.csv_reader import MAX_COLUMNS
from svc.content.csv_type import CsvRowWriter, CsvType, cell, encoded, quoted
from svc.content.json_type import JsonType
from svc.content.texts import converter
from svc.content.values import text_key
from svc.errors import ClientError
from svc.http.row_responses import plan_shape
from svc.http.row_stream import QueryExecution
from svc.operations.call import Call
from svc.operations.csv_cast import exact_text
from svc.operations.csv_rows import header_line
from svc.operations.fields import bad_request
from svc.operations.job import Job, JobFailed
from svc.operations.load_sources import is_below
from svc.operations.refusals import refused
from svc.query.tables import rule_members
from svc.resources import PlannedQuery
from svc.resources.resource import FoundRows, StreamedRows
from svc.store.schema import Attribute
from svc.store.values.records import decode


class ExportCsvType(CsvType):
    """`attributes`: of the table whose records are exported; without it values have no declared types."""

    def row_writer(
        self, shape: Shape = ANY_SHAPE, count: int | None = None, attributes: Mapping[str, Attribute] | None = None
    ) -> CsvExportWriter:
        return CsvExportWriter(shape, attributes or {})


class CsvExportWriter(CsvRowWriter):
    """The columns of objects are known before the first row."""

    __slots__ = ("_attributes", "_cells", "_names")

    def __init__(self, shape: Shape, attributes: Mapping[str, Attribute]) -> None:
        if len(shape.columns) > MAX_COLUMNS:
            raise JobFailed(f"The records have more than {MAX_COLUMNS} attributes together, which no CSV can have: export them as JSON")
        super().__init__(replace(shape, open=False))
        self._names = frozenset(shape.columns)
        self._attributes = attributes
        self._cells: list[tuple[str, Callable[[Any], str]]] = []

    def rows(self, batch: list[Any]) -> bytes:
        if self._form != "object":
            return super().rows(batch)
        header = self._header(batch[:1])
        if not self._cells:
            self._cells = [(name, cell if converter(self._attributes.get(name)) is not None else _untyped) for name in self._columns]
        for row in batch:
            if not self._names.issuperset(row):
                raise JobFailed("Records have got further attributes while they were exported: export them again")
        return encoded(header, [",".join([write(row.get(name)) for name, write in self._cells]) for row in batch])

    def raw(self, batch: list[bytes]) -> bytes:
        return self.rows(list(map(decode, batch)))

    def _header(self, first: list[Any]) -> str:
        is_begun = self._begun
        line = super()._header(first)
        names = [text_key(name) for name in self._columns]
        return line if is_begun or not first or len(names) < 2 else header_line(names, [quoted(name) for name in names])


def _untyped(value: Any) -> str:
    return quoted(exact_text(value)) if type(value) is str else cell(value)


FORMATS: dict[str, ContentType] = {"json": JsonType(), "csv": ExportCsvType()}
WRITTEN_AT_ONCE = 1 << 18  # bytes: what is encoded before a helper thread writes it
_BATCH = 128  # values of a result that is there as a whole, encoded between two polls of the clock

T = TypeVar("T")


class ExportFile:
    """A file that is being written. `token`: makes the name it has until then its own."""

    def __init__(self, path: Path, token: str) -> None:
        self.path = path
        self._partial = path.with_name(f".{token}.part")
        self._descriptor = -1

    def open(self) -> None:
        self._descriptor = os.open(self._partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)

    def write(self, data: bytes) -> None:
        rest = memoryview(data)
        while rest:
            rest = rest[os.write(self._descriptor, rest) :]

    def finish(self) -> None:
        """What was written is on the disk under the file's own name."""
        os.fsync(self._descriptor)
        self._close()
        os.replace(self._partial, self.path)
        directory = os.open(self.path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(directory)
        finally:
            os.close(directory)

    def discard(self) -> None:
        """Leave nothing, unless it is finished."""
        self._close()
        self._partial.unlink(missing_ok=True)

    def _close(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1


def check_directory(path: str, roots: Sequence[Path] | None = None) -> Path:
    """The directory that files may be written to. `roots`: outside of which nothing may be written; None: everywhere. Blocks. Raises 400, 403."""
    if roots is not None:
        try:
            real = os.path.realpath(path)
        except (OSError, ValueError):
            raise bad_request(f"path '{path}' does not exist") from None
        if not any(real == root or is_below(real, root) for root in map(os.path.realpath, roots)):
            raise refused(f"path '{path}' is outside the directories that files may be exported to")
        path = real
    try:
        mode = os.stat(path).st_mode
    except PermissionError:
        raise bad_request(f"access to path '{path}' is denied") from None
    except (OSError, ValueError):
        raise bad_request(f"path '{path}' does not exist") from None
    if not stat.S_ISDIR(mode):
        raise bad_request(f"path '{path}' is not a directory, please supply a valid folder path")
    if not os.access(path, os.W_OK | os.X_OK):
        raise bad_request(f"access to path '{path}' is denied")
    return Path(path)


async def write_export(call: Call, job: Job, search: Call, format: str, path: Path) -> int:
    """Run the search and write what it finds; returns the number of rows. What goes wrong with the file is the failure of the job."""
    file = ExportFile(path, job.id)
    try:
        await settled(call.on_helper(file.open))
        count = await _write_rows(call, job, search, FORMATS[format], file)
        await settled(call.on_helper(file.finish))
    except OSError as error:
        raise JobFailed(f"'{path}' could not be written: {error.strerror}") from error
    finally:
        await settled(call.on_helper(file.discard))
    return count


async def settled(work: Awaitable[T]) -> T:
    """What the work on a helper thread returns. It goes on when the job is cancelled, so this waits for it: two threads in one file would be
    one too many."""
    future = asyncio.ensure_future(work)
    try:
        return await asyncio.shield(future)
    except asyncio.CancelledError:
        if not future.done():
            await asyncio.wait([future])
        raise


async def _write_rows(call: Call, job: Job, search: Call, kind: ContentType, file: ExportFile) -> int:
    result = search.operation.handler(search)
    if not isinstance(result, PlannedQuery):
        result = await result if isinstance(result, Awaitable) else result
    if isinstance(result, PlannedQuery):
        clock = call.node.clock
        execution = QueryExecution(
            result, native=kind.native, whole=False, now=clock.monotonic, wall_ms=clock.wall() * 1000, reader=f"the export {job.id}"
        )
        try:
            execution.keep()  # before the turn ends
            shape = plan_shape(result)
            if type(kind) is ExportCsvType:
                names = await _names_of_all(call, job, search, shape) if shape.open else shape.columns
                writer: RowWriter = kind.row_writer(replace(shape, columns=tuple(names)), attributes=result.table.attributes)
            else:
                writer = kind.row_writer(shape)
            return await _write(call, job, writer, _encoded(execution, writer), expected_rows(result), file)
        finally:
            execution.close()
    if isinstance(result, StreamedRows):
        return await _write_found(call, job, kind, result.rows, file)
    if not isinstance(result, list):
        raise ClientError("The search gives no list")
    if type(kind) is ExportCsvType:
        columns: dict[str, None] = {}
        for at in range(0, len(result), _BATCH):
            await call.node.store.slices.take()
            for row in result[at : at + _BATCH]:
                columns.update(dict.fromkeys(row if isinstance(row, dict) else ()))
        writer = kind.row_writer(Shape(tuple(columns)), attributes=None if search.table is None else search.table.attributes)
    else:
        writer = kind.row_writer()
    batches = ((len(batch), writer.values(batch)) for batch in (result[at : at + _BATCH] for at in range(0, len(result), _BATCH)))
    return await _write(call, job, writer, batches, len(result), file)


async def _names_of_all(call: Call, job: Job, search: Call, shape: Shape) -> dict[str, None]:
    """The columns, and the further properties of all records of the search: the first record need not have them. It is run for that."""
    names = dict.fromkeys(shape.columns)
    result = search.operation.handler(search)
    assert isinstance(result, PlannedQuery)
    clock = call.node.clock
    execution = QueryExecution(
        result, native=True, whole=False, now=clock.monotonic, wall_ms=clock.wall() * 1000, reader=f"the export {job.id}"
    )
    try:
        execution.keep()
        while not execution.done:
            end = await call.node.store.slices.take()
            while not execution.done and clock.monotonic() < end:
                for raw in execution.step():
                    names.update(dict.fromkeys(decode(raw)))
            await job.progress(0, None)
    finally:
        execution.close()
    return names


def _encoded(execution: QueryExecution, writer: RowWriter) -> Iterator[tuple[int, bytes]]:
    """(rows, bytes) of each step; some find nothing."""
    while not execution.done:
        batch = execution.step()
        yield len(batch), execution.write(writer, batch) if batch else b""


async def _write(call: Call, job: Job, writer: RowWriter, batches: Iterator[tuple[int, bytes]], total: int | None, file: ExportFile) -> int:
    slices, now = call.node.store.slices, call.node.clock.monotonic
    pieces, size, count = [writer.begin()], 0, 0
    done = False
    while not done:
        end = await slices.take()
        done = True
        for rows, data in batches:
            count += rows
            pieces.append(data)
            size += len(data)
            if size >= WRITTEN_AT_ONCE or now() >= end:
                done = False
                break
        if done:
            pieces.append(writer.end())
        if done or size >= WRITTEN_AT_ONCE:
            data, pieces, size = b"".join(pieces), [], 0
            await settled(call.on_helper(_writing(file, data)))
        await job.progress(count, total)
    return count


async def _write_found(call: Call, job: Job, kind: ContentType, rows: FoundRows, file: ExportFile) -> int:
    """The rows of a statement in SQL."""
    slices = call.node.store.slices
    writer: RowWriter = kind.row_writer(Shape(tuple(rows.columns)))
    pieces, size, count = [writer.begin()], 0, 0
    try:
        found = rows.found
        while True:
            for at in range(0, len(found), _BATCH):
                await slices.take()
                pieces.append(writer.values(found[at : at + _BATCH]))
                size += len(pieces[-1])
            count += len(found)
            if size >= WRITTEN_AT_ONCE or rows.done:
                if rows.done:
                    pieces.append(writer.end())
                data, pieces, size = b"".join(pieces), [], 0
                await settled(call.on_helper(_writing(file, data)))
            await job.progress(count, None)
            if rows.done:
                return count
            found = await rows.more()
    finally:
        rows.close()


def _writing(file: ExportFile, data: bytes) -> Callable[[], None]:
    return lambda: file.write(data)


def expected_rows(rows: PlannedQuery) -> int | None:
    """The number of rows of a result, about, where it is known without counting: records that have expired and are not yet removed are in it."""
    query: Any = rows.plan.query
    if query.where is not None or query.aggregate is not None or rule_members(rows.plan.table):
        return None
    found: int = max(rows.table.entry_count(rows.table.database.snapshot()) - query.offset, 0)
    return found if query.limit is None else min(found, int(query.limit))
