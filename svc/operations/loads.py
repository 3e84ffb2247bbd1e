"""Bulk loads as jobs: CSV data, files, addresses, S3 (spec: operations §4).

What can be known before is checked before the job exists: fields, table, file, the answer of a URL. The job then reads rows while it writes them
(`store.bulk_write`), so neither the size of the content nor the number of its rows matters. A row that cannot be read or written is told in the job's
result and hinders no other.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator, Iterable, Mapping
from typing import Any, cast

from svc.content.csv_reader import MAX_COLUMNS, separator_fault
from svc.content.list_faults import LONGEST_NAME
from svc.content.unchanged import Restore, restore_json, restore_loaded
from svc.errors import Problem, Refusal, ValidationError
from svc.operations.call import Call
from svc.operations.csv_cast import CsvColumns, autocast, column_name_fault
from svc.operations.csv_rows import QUOTED, CsvRowParser
from svc.operations.fields import DATABASE, TABLE, Field, attribute_name_fault, bad_request
from svc.operations.job import Job, JobFailed
from svc.operations.json_records import JsonRecordParser
from svc.operations.load_faults import LoadFaults
from svc.operations.load_sources import StreamSource, StringSource, encoding_fault, headers_fault, open_file, open_url, opened, url_fault
from svc.operations.operation import UPSERT, Operation
from svc.operations.outbound import rules_for
from svc.operations.refusals import check_written_attributes
from svc.operations.s3 import S3, get_object, read_target, require_library, s3_problem
from svc.store.system import SYSTEM, SYSTEM_WRITE
from svc.store.writing.bulk_batch import BulkResult, Mode, RefusedRecord
from svc.store.writing.bulk_write import bulk_write

logger = logging.getLogger("svc.operations")

ACTIONS = ("insert", "update", "upsert")
SEPARATORS = (",", ";", "\t", "|")
FAILED = "There was an error during your bulk load into svc. Check logs and try again."
NO_ROWS = "No records parsed from csv file."
_LEFT_OUT = "\0"  # how the names of columns that are left out begin: no attribute has such a name
ROWS = 128  # that are read between two polls of the clock
CELLS = 4096  # at most, unless one row has more

Record = dict[str, Any]
AnySource = StreamSource | StringSource


# --- operations -------------------------------------------------------------------------------------------------------------------------


def csv_data_load(call: Call) -> Any:
    action = checked_action(call)
    return start_load(call, action, StringSource(call["data"]))


async def csv_file_load(call: Call) -> Any:
    action = checked_action(call)
    config = call.node.config
    roots = None if call.is_super_user else config.operations_api.import_roots
    source = await opened(lambda: open_file(call["file_path"], config.root, roots), call["encoding"])
    return start_load(call, action, source)


async def csv_url_load(call: Call) -> Any:
    action = checked_action(call)
    rules = rules_for(call)
    source = await opened(lambda: open_url(call["csv_url"], call["passthrough_headers"] or {}, rules), call["encoding"])
    return start_load(call, action, source)


async def import_from_s3(call: Call) -> Any:
    target = read_target(call["s3"])
    action = checked_action(call)
    require_library()
    rules = rules_for(call)
    source = await opened(lambda: (_S3Body(get_object(target, rules)), None), call["encoding"])
    return start_load(call, action, source, is_json=target.key.lower().endswith(".json"))


class _S3Body:
    """What the client library raises while an object is read becomes a Problem."""

    def __init__(self, body: Any) -> None:
        self._body = body

    def read(self, amt: int, /) -> bytes:
        try:
            return cast(bytes, self._body.read(amt))
        except Exception as error:
            problem = s3_problem(error)
            if problem is None:
                raise
            raise problem from error

    def close(self) -> None:
        self._body.close()


def checked_action(call: Call) -> Mode:
    """The action. Raises what can be known without the content."""
    action = call["action"]
    if action is None:
        action = "insert"
    if not isinstance(action, str) or action not in ACTIONS:
        raise bad_request("Action is required and must be either insert, update, or upsert")
    if call["database"] == SYSTEM:
        raise Problem(SYSTEM_WRITE, 403)
    assert call.table
    return cast(Mode, action)


def start_load(call: Call, action: Mode, source: AnySource, *, is_json: bool = False, separator: str | None = None) -> Any:
    """A job that loads a source; closes it. `separator`: None: as the call says, or a comma."""
    try:
        load = _Load(call, action, source, separator or call["separator"] or ",")
        return call.node.jobs.start(call, load.json if is_json else load.csv)
    except BaseException:
        source.close()
        raise


class _BadHeader(JobFailed):
    """A header row has a name that no attribute can have, or too many. `name`: where it lies."""

    def __init__(self, message: str, name: str) -> None:
        super().__init__(message)
        self.problem = ValidationError(str(self))
        self.problem.faults = ({"line": 1, "attribute": name[:LONGEST_NAME], "message": str(self)},)


# --- the work of a job ------------------------------------------------------------------------------------------------------------------


class _Load:
    def __init__(self, call: Call, action: Mode, source: AnySource, separator: str) -> None:
        self._call = call
        self._separator = separator
        self._names: Mapping[str, str | None] = call["columns"] or {}  # of the content -> attributes, None: left out
        self._table = call.table
        self._action = action
        self._source = source
        self._slices = call.node.store.slices
        self._attributes = frozenset[str]()  # that are known to be good
        self._columns: CsvColumns | None = None
        self._rows_at_once = ROWS
        self._result = BulkResult()
        self._faults = LoadFaults()

    async def csv(self, job: Job) -> tuple[str, dict[str, Any]]:
        return await self._run(job, self._csv_records(), restore_loaded(autocast))

    async def json(self, job: Job) -> tuple[str, dict[str, Any]]:
        return await self._run(job, self._json_records(), restore_json)

    async def _run(self, job: Job, records: AsyncGenerator[list[Record | RefusedRecord]], restore: Restore) -> tuple[str, dict[str, Any]]:
        async def on_batch(result: BulkResult) -> None:
            self._result = result
            self._faults.take(result)
            job.note_faults(list(self._faults.faults))
            counts = {"written": result.written, "skipped": result.skipped, "failed": result.failed}
            await job.progress(result.total, None, self._read(), counts)

        try:
            result = await bulk_write(
                self._table,
                records,
                mode=self._action,
                user=self._call.username,
                on_batch=on_batch,
                decide=restore,
                rows=self._call.row_guard,
                trace_id=self._call.trace_id,
            )
        except _BadHeader as error:
            self._faults.end(error.problem)
            job.note_faults(self._faults.faults)
            raise
        except Problem as problem:
            if not isinstance(problem, Refusal):
                self._faults.end(problem)
                job.note_faults(self._faults.faults)
            if not self._result.total or isinstance(problem, Refusal):
                raise
            raise JobFailed(f"{problem.message} ({self._result.written} of {self._result.total} records were loaded before)") from problem
        except Exception as error:
            logger.exception("a load into %s.%s failed", self._table.database.name, self._table.name)
            raise JobFailed(FAILED) from error
        finally:
            self._source.close()
        if not result.total:
            raise JobFailed(NO_ROWS)
        return f"successfully loaded {result.written} of {result.total} records", {
            "written": result.written,
            "skipped": result.skipped,
            "failed": result.failed,
            "errors": self._faults.entries,
        }

    def _read(self) -> str:
        """How much of the content has been read."""
        done, size = self._source.done, self._source.size
        return f"{done * 100 // size} % read" if size else f"{done} bytes read"

    async def _csv_records(self) -> AsyncGenerator[list[Record | RefusedRecord]]:
        await self._source.check_encoding()
        rows = CsvRowParser(self._separator, quotes_mean_text=self._call["quotes_mean_text"] is True)
        async for text in self._source.pieces():
            async for records in self._taken(rows, text):
                yield records
        async for records in self._taken(rows, None):
            yield records
        rows.check_end()

    async def _taken(self, rows: CsvRowParser, text: str | None) -> AsyncGenerator[list[Record | RefusedRecord]]:
        """The records of the rows that are there with this piece of text, None: the end; as many at once as a slice has time for."""
        now = self._call.node.clock.monotonic
        end = await self._slices.take()
        if text is None:
            rows.finish()
        else:
            rows.feed(text)
        if self._columns is None:
            header = rows.rows(1)
            if not header:
                return
            self._columns = self._read_header(header[0], rows)
        while True:
            records: list[Record | RefusedRecord] = []
            while some := rows.rows(self._rows_at_once):
                records += self._columns.records(some, rows.lines)
                self._faults.add_lines(rows.lines)
                if now() >= end:
                    break
            if records:
                yield records
            if not some:
                return
            end = await self._slices.take()

    def _read_header(self, header: list[str], rows: CsvRowParser) -> CsvColumns:
        """Raises JobFailed, or what stands against writing these attributes."""
        if len(header) > MAX_COLUMNS:
            raise _BadHeader(f"The CSV has more than {MAX_COLUMNS} columns, cancelling load operation", header[MAX_COLUMNS])
        if rows.is_export:
            header = [name.removeprefix(QUOTED) for name in header]
        left_out = frozenset(place for place, name in enumerate(header) if self._names.get(name, name) is None)
        header = [_LEFT_OUT + str(place) if place in left_out else self._names.get(name) or name for place, name in enumerate(header)]
        fault = column_name_fault([name for place, name in enumerate(header) if place not in left_out])
        if fault is not None:
            raise _BadHeader(f"Invalid column name '{fault}', cancelling load operation", fault)
        is_other = rows.is_quoted or self._separator != ","
        separated = None if is_other else separator_fault(header, self._table.attributes)
        if separated is not None:
            raise _BadHeader(f"Invalid column name '{header[0]}', cancelling load operation: {separated}", header[0])
        self._check_rights([name for place, name in enumerate(header) if place not in left_out])
        self._rows_at_once = max(1, min(ROWS, CELLS // len(header)))
        dropped = self._managed.union(header[place] for place in left_out)
        return CsvColumns(header, self._table.attributes, self._table.primary_key, dropped, is_exact=bool(rows.is_export))

    async def _json_records(self) -> AsyncGenerator[list[Record | RefusedRecord]]:
        reader = JsonRecordParser()
        async for text in self._source.pieces():
            reader.feed(text)
            while True:
                await self._slices.take()
                some = reader.records(ROWS)
                if not some:
                    break
                self._faults.add_lines(reader.lines)
                yield list(map(self._json_record, some))
        reader.check_end()

    def _json_record(self, record: Record) -> Record | RefusedRecord:
        if self._names:
            named = {name: value for old, value in record.items() if (name := self._names.get(old, old)) is not None}
            if len(named) < sum(self._names.get(old, old) is not None for old in record):
                return RefusedRecord("Two of its properties become the same attribute", record.get(self._table.primary_key))
            record = named
        known = self._attributes
        if not record.keys() <= known:
            unknown = record.keys() - known
            self._check_rights(unknown)
            for name in sorted(unknown):
                fault = attribute_name_fault(name)
                if fault is not None:
                    return RefusedRecord(fault, record.get(self._table.primary_key), name)
            self._attributes = known | unknown if len(known) < 10_000 else frozenset(unknown)
        for name in self._managed:
            record.pop(name, None)
        key = record.get(self._table.primary_key)
        if key == "":
            del record[self._table.primary_key]
        elif key == "null" or key == "undefined":
            return RefusedRecord(f"Invalid hash value: '{key}' is not a valid hash attribute value, check log for more info")
        return record

    @property
    def _managed(self) -> frozenset[str]:
        """Attributes that only the store sets: values sent for them are dropped."""
        return frozenset(("__createdtime__", "__updatedtime__", *self._table.stamps))

    def _check_rights(self, names: Iterable[str]) -> None:
        call = self._call
        rights = call.rights
        if rights.attributes is None:
            return
        if not rights.managed.isdisjoint(names):
            rights.check_write(dict.fromkeys(rights.managed.intersection(names)), insert=True)
        needed = ("insert", "update") if self._action == "upsert" else (self._action,)
        check_written_attributes(call["database"], call["table"], rights, names, needed)


# --- rows -------------------------------------------------------------------------------------------------------------------------------

ACTION = Field("action", "any", "What to do with the records: `insert` (default), `update` or `upsert`.", choices=ACTIONS)
COLUMNS = Field(
    "columns",
    "object",
    'The attribute that each column, or each property of JSON, becomes: `{"Name": "species", "Remark": null}`; null leaves it out. Others keep their names.',
    check=lambda value, field: _columns_fault(value),
)
SEPARATOR = Field(
    "separator",
    "any",
    "What separates cells: a comma (default), a semicolon, a tab or a bar.",
    check=lambda value, field: _separator_fault(value),
)
QUOTES = Field(
    "quotes_mean_text",
    "bool",
    'Whether quotes tell text from other values, as in CSV of this server: `"1.10"` is text, `""` the empty one. Default: as the header says.',
)
ENCODING = Field(
    "encoding",
    "string",
    "Encoding of the content, such as `windows-1252` or `utf-16`. Default: what the `Content-Type` of an address says, else UTF-8.",
    check=lambda value, field: encoding_fault(value),
)
STARTED = {"message": "Starting job with id 0b5e1c3e-6f6b-4c2e-9f7a-2f1d8a5f3c11", "job_id": "0b5e1c3e-6f6b-4c2e-9f7a-2f1d8a5f3c11"}
RETURNS = "The message with the id of the job, and the id."
NOTES = """The answer comes when the job's record is stored; `get_job` tells how it goes and how it ended. The message of a job that is done is
`successfully loaded 350 of 350 records`: written and read. Its `result` is `{written, skipped, failed, errors}`: `insert` skips records whose key
exists, `update` those whose key does not; `errors` has the first hundred failed rows as `{row, line, key, attribute, message}`. The first row behind the
header is row 1; `line` is the one on which it begins, from 1; `key` and `attribute`, the first at fault, are there where they are known.
The job itself has `faults`, also when it ends as `ERROR`: up to 20 of `{index, line, key, attribute, code, message}`, of faulty rows and of what ended
the load. A row that cannot be loaded hinders no other. The records are written in batches: a load that is cancelled or fails later leaves whole batches,
and its message tells how many records these were. A load of more than 16,384 records into a table with at most 1,024 builds the indexes of the table at
its end: until then a query that needs one of them is answered with 503 `INDEX_REBUILDING`."""
_CSV_NOTES = """

The first row has the names of the attributes, the content may begin with a byte order mark. Blank lines are skipped, and so are rows whose
cells are all empty; surplus cells are dropped; an empty cell means that the record does not have the attribute. Cells of declared attributes are read
by their type (`Date` takes ISO strings). Others are cast by their form, quoted or not: `true`, `TRUE`, `false`, `FALSE` are booleans; `null`, `NULL`,
`undefined` are null; numbers without leading zeros and without exponent are numbers; `{...}` and `[...]` are JSON if they can be read as such; the rest
is text. In the CSV of an export, whose header has one name without quotes among quoted ones, quotes mean text: `"1.10"` is text, `""` the empty one, and
`{...}`, `[...]` and `"..."` in quotes are JSON. A header of one name with `;`, a tab or `|` is refused unless `separator` says so. A row has at most
10,000 columns. A cell may have 1,048,576 characters, a row twice as many. Dynamic tables learn the attributes of the header."""


def _columns_fault(columns: Mapping[str, Any]) -> str | None:
    taken = [name for name in columns.values() if name is not None]
    if len(columns) > MAX_COLUMNS:
        return f"may have at most {MAX_COLUMNS} names"
    if not all(isinstance(name, str) and name for name in taken):
        return "must be an object of names or null by name"
    return None if len(set(taken)) == len(taken) else "must not have one attribute twice"


def _separator_fault(value: Any) -> str | None:
    return None if value in SEPARATORS else "must be a comma, a semicolon, a tab or a bar"


def _with_errors(text: str, extra: str = "") -> str:
    return f"{text}{_CSV_NOTES}{extra}"


OPERATIONS = (
    Operation(
        name="csv_data_load",
        category="bulk",
        summary="Load records from a CSV string.",
        permission=UPSERT,
        handler=csv_data_load,
        fields=(
            DATABASE,
            TABLE,
            Field("data", "string", "The CSV string, with a header row.", required=True),
            ACTION,
            SEPARATOR,
            QUOTES,
            COLUMNS,
        ),
        returns=RETURNS,
        notes=_with_errors(NOTES),
        example={"database": "garden", "table": "plant", "action": "upsert", "data": "id,species,height\n1,fern,12\n2,moss,3\n"},
        example_answer=STARTED,
        missing_status=400,
        starts_job=True,
    ),
    Operation(
        name="csv_file_load",
        category="bulk",
        summary="Load records from a CSV file on the server.",
        permission=UPSERT,
        handler=csv_file_load,
        fields=(
            DATABASE,
            TABLE,
            Field("file_path", "string", "Path of the file on the server; a relative one is relative to `rootPath`.", required=True),
            ENCODING,
            ACTION,
            SEPARATOR,
            QUOTES,
            COLUMNS,
        ),
        returns=RETURNS,
        notes=_with_errors(
            NOTES,
            "\n\nUsers that are not super users may load files below the directories of `operationsApi.importRoots` only, links followed.",
        ),
        example={"database": "garden", "table": "plant", "action": "insert", "file_path": "import/plants.csv"},
        example_answer=STARTED,
        missing_status=400,
        starts_job=True,
    ),
    Operation(
        name="csv_url_load",
        category="bulk",
        summary="Load records from a CSV file on the web.",
        permission=UPSERT,
        handler=csv_url_load,
        fields=(
            DATABASE,
            TABLE,
            Field(
                "csv_url",
                "string",
                "An `http` or `https` address.",
                required=True,
                secret=True,
                check=lambda value, field: url_fault(value),
            ),
            Field(
                "passthrough_headers",
                "object",
                "Headers to send with the request, to the server of the address only.",
                secret=True,
                check=lambda value, field: headers_fault(value),
            ),
            ENCODING,
            ACTION,
            SEPARATOR,
            QUOTES,
            COLUMNS,
        ),
        returns=RETURNS,
        notes=_with_errors(
            NOTES,
            "\n\nThe request is made before the answer: a status other than 200 and a content type other than `text/csv`, `text/plain`,"
            " `application/octet-stream` or `application/vnd.ms-excel` are answered with 400. Up to five redirects are followed."
            "\n\nSuper users may load from public addresses, and from the hosts in `operationsApi.importHosts`; other users from those hosts only: 403."
            " Each redirect is checked in the same way, and the connection goes to the address that was checked. `passthrough_headers` go to the first"
            " host only.",
        ),
        example={"database": "garden", "table": "plant", "action": "insert", "csv_url": "https://example.com/plants.csv"},
        example_answer=STARTED,
        missing_status=400,
        starts_job=True,
    ),
    Operation(
        name="import_from_s3",
        category="bulk",
        summary="Load records from a CSV or JSON object in S3.",
        permission=UPSERT,
        handler=import_from_s3,
        fields=(DATABASE, TABLE, S3, ENCODING, ACTION, SEPARATOR, QUOTES, COLUMNS),
        returns=RETURNS,
        notes=_with_errors(
            NOTES,
            "\n\nObjects whose key ends with `.json` hold an array of records, or one record after the other (NDJSON)."
            " Needs the extra `s3`: without it 501. Users that are not super users need the host of the bucket in `operationsApi.importHosts`, such as"
            " `*.amazonaws.com`; so does everybody for a host without a public address.",
        ),
        example={
            "database": "garden",
            "table": "plant",
            "action": "insert",
            "s3": {
                "aws_access_key_id": "AKIAEXAMPLE",
                "aws_secret_access_key": "…",
                "bucket": "my-bucket",
                "key": "plants.csv",
                "region": "us-east-1",
            },
        },
        example_answer=STARTED,
        missing_status=400,
        starts_job=True,
    ),
)
