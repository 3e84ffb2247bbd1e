"""Exports as jobs: to a file of this machine or to S3 (spec: operations §4).

The search is checked before the job exists, so a faulty one is answered with what it would be answered with by itself; the job runs it again.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from svc.errors import AccessViolation
from svc.operations.call import Call
from svc.operations.export_files import FORMATS, check_directory, settled, write_export
from svc.operations.fields import Field, bad_request
from svc.operations.job import Job, JobFailed
from svc.operations.operation import SUPER_USER, Operation
from svc.operations.outbound import HostRules, rules_for
from svc.operations.s3 import S3, S3Object, put_object, read_target, require_library
from svc.operations.service import NEVER_FROM_CLIENTS, Operations
from svc.operations.sql import check_query

SEARCHES = ("sql", "search_by_hash", "search_by_id", "search_by_value", "search_by_conditions")
_LONGEST_NAME = 250  # bytes of a file name without its extension


async def export_local(call: Call) -> Any:
    format = _checked_format(call["format"])
    name = call["filename"]
    if name is None:
        name = str(int(call.node.clock.wall() * 1000))
    elif _is_no_file_name(name):
        raise bad_request("'filename' must be the name of a file without a directory")
    search = await _checked_search(call)
    # A granted export may not write into the directories of svc itself, of applications, or of the server's user.
    roots = None if call.is_super_user else call.node.config.operations_api.import_roots
    directory: Path = await call.on_helper(lambda: check_directory(call["path"], roots))
    path = directory / f"{name}.{format}"

    async def work(job: Job) -> tuple[None, dict[str, Any]]:
        await write_export(call, job, search(), format, path)
        return None, {"message": f"Successfully exported {format.upper()} locally.", "path": str(path)}

    return call.node.jobs.start(call, work)


async def export_to_s3(call: Call) -> Any:
    format = _checked_format(call["format"])
    target = read_target(call["s3"], extensions=())
    search = await _checked_search(call)
    require_library()
    if not target.key.lower().endswith(f".{format}"):
        target = S3Object(target.aws_access_key_id, target.aws_secret_access_key, target.bucket, f"{target.key}.{format}", target.region)

    rules = rules_for(call)

    async def work(job: Job) -> tuple[None, dict[str, Any]]:
        directory = await call.on_helper(lambda: tempfile.TemporaryDirectory(prefix=".export-", dir=call.node.config.root))
        try:
            path = Path(directory.name) / f"export.{format}"
            await write_export(call, job, search(), format, path)
            return None, await call.on_helper(lambda: _upload(target, path, rules))
        except OSError as error:
            raise JobFailed(f"The export could not be written: {error.strerror}") from error
        finally:
            await settled(call.on_helper(directory.cleanup))

    return call.node.jobs.start(call, work)


def _upload(target: S3Object, path: Path, rules: HostRules) -> dict[str, Any]:
    with path.open("rb") as content:
        return put_object(target, content, rules)


def _checked_format(given: Any) -> str:
    if not isinstance(given, str) or given not in FORMATS:
        raise bad_request(f"format invalid. must be one of the following values: {', '.join(FORMATS)}")
    return given


def _is_no_file_name(name: str) -> bool:
    try:
        size = len(name.encode())
    except UnicodeEncodeError:
        return True
    return size > _LONGEST_NAME or "/" in name or "\0" in name or name in (".", "..")


async def _checked_search(call: Call) -> Callable[[], Call]:
    """A function that returns a new checked call of the search each time. Raises what the search itself would."""
    body: Mapping[str, Any] = {name: value for name, value in call["search_operation"].items() if name not in NEVER_FROM_CLIENTS}
    name = body.get("operation")
    if not isinstance(name, str) or name not in SEARCHES:
        raise bad_request(f"searchOperation.operation must be one of the following values: {', '.join(SEARCHES)}")
    if name == "sql" and not call.is_super_user:
        raise AccessViolation(call.user, "Operation 'sql' is restricted to 'super_user' roles")

    def prepared() -> Call:
        return Operations(call.node).prepare(body, call.user, authorized=call.authorized)

    search = prepared()
    search.is_check = True
    if name == "sql":
        await check_query(search)
    else:
        search.operation.handler(search)
    return prepared


FORMAT = Field("format", "any", "Of the file.", required=True, missing="format missing", choices=tuple(FORMATS))
SEARCH_OPERATION = Field(
    "search_operation",
    "object",
    f"The operation whose result is exported: one of {', '.join(f'`{name}`' for name in SEARCHES)}.",
    required=True,
)
_SEARCH = {
    "operation": "search_by_conditions",
    "database": "garden",
    "table": "plant",
    "conditions": [{"attribute": "height", "comparator": "greater_than", "value": 5}],
}
_STARTED = {"message": "Starting job with id 0b5e1c3e-6f6b-4c2e-9f7a-2f1d8a5f3c11", "job_id": "0b5e1c3e-6f6b-4c2e-9f7a-2f1d8a5f3c11"}
_NOTES = """\
The search is checked before the job begins. {where} JSON is an array of the records; CSV has a header row of the attributes, and of what any record
has besides; `csv_data_load` and the others load it as it was: see there. The job reports the number of written records, and can be cancelled: `cancel_job`."""

OPERATIONS: tuple[Operation, ...] = (
    Operation(
        name="export_local",
        category="bulk",
        summary="Write what a search finds to a file on the server",
        permission=SUPER_USER,
        handler=export_local,
        fields=(
            FORMAT,
            Field("path", "string", "Existing directory on the server.", required=True, missing="path is missing."),
            Field("filename", "string", "Name of the file without its extension; default the time in milliseconds."),
            SEARCH_OPERATION,
        ),
        returns="The id of the job. Its `result` holds `message` and the `path` of the file.",
        notes=_NOTES.format(
            where="The file appears under its name when it is whole, readable for the server's user only; a file that has the name already is replaced."
            " Users that are not super users may write below the directories of `operationsApi.importRoots` only."
        ),
        example={"format": "csv", "path": "/var/lib/exports", "filename": "tall", "search_operation": _SEARCH},
        example_answer=_STARTED,
        starts_job=True,
    ),
    Operation(
        name="export_to_s3",
        category="bulk",
        summary="Write what a search finds to an object in S3",
        permission=SUPER_USER,
        handler=export_to_s3,
        fields=(FORMAT, S3, SEARCH_OPERATION),
        returns="The id of the job. Its `result` holds what S3 says of the object (`ETag` ...).",
        notes=_NOTES.format(where="`.json` or `.csv` is added to the key if it does not end with it.")
        + " Needs the extra `s3` of the package; without it the answer is 501. Which hosts may be written to: as for `import_from_s3`.",
        example={
            "format": "json",
            "s3": {
                "aws_access_key_id": "AKIAEXAMPLE",
                "aws_secret_access_key": "secret",
                "bucket": "garden-exports",
                "key": "plants",
                "region": "eu-central-1",
            },
            "search_operation": _SEARCH,
        },
        example_answer=_STARTED,
        starts_job=True,
    ),
)
