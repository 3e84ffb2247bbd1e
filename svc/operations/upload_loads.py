"""Loads of files that were sent before: kept, looked at, then loaded as others are (spec: operations §4.2)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from svc.deploying.payloads import Payload
from svc.operations.call import Call
from svc.operations.fields import DATABASE, TABLE, Field
from svc.operations.load_sources import ReadableContent, opened
from svc.operations.loads import ACTION, COLUMNS, ENCODING, NOTES, QUOTES, RETURNS, SEPARATOR, STARTED, checked_action, start_load
from svc.operations.operation import UPSERT, Operation
from svc.operations.previews import CSV, FORMATS, MOST_READ, ROWS, described_columns, preview_of, refuse_archive
from svc.operations.uploads import KEPT_SECONDS, MOST_BYTES, OF_A_USER, Purpose

HEAD = 16  # bytes that tell what is compressed


async def add_upload(call: Call) -> dict[str, Any]:
    checked_action(call)
    payload = call["payload"]
    payload = payload if isinstance(payload, Payload) else Payload.of(payload)
    call.arguments["payload"] = None
    call.body = {name: value for name, value in call.body.items() if name != "payload"}
    if not payload.is_text:
        refuse_archive(bytes(payload.data[:HEAD]))
    upload_id, size = await call.on_helper(lambda: call.node.uploads.add(payload, _purpose(call)))
    return {"upload": upload_id, "size": size, "expires": int((call.node.clock.wall() + KEPT_SECONDS) * 1000)}


async def read_upload(call: Call) -> dict[str, Any]:
    checked_action(call)
    node, upload_id = call.node, call["upload"]
    uploads = node.uploads
    source = await opened(lambda: _open(uploads.find(upload_id, _purpose(call))), call["encoding"])
    found = await preview_of(source, node.store.slices, node.clock.monotonic, call["format"], call["separator"])
    return {
        "format": found.format,
        "separator": found.separator if found.format == CSV else None,
        "quotes_mean_text": found.quotes_mean_text if found.format == CSV else None,
        "columns": described_columns(found, call.table),
        "rows": found.rows,
        "more": found.is_cut,
    }


async def load_upload(call: Call) -> Any:
    action = checked_action(call)
    uploads = call.node.uploads
    taken = await call.on_helper(lambda: uploads.take(call["upload"], _purpose(call)))
    try:
        source = await opened(lambda: _open(taken), call["encoding"])
        started = await start_load(call, action, source, is_json=call["format"] != CSV)
    except BaseException:
        await call.on_helper(lambda: uploads.give_back(taken))
        raise
    await call.on_helper(lambda: taken.unlink(missing_ok=True))  # the job has it open
    return started


def _purpose(call: Call) -> Purpose:
    return Purpose(call.username or "", call["holder"] or "", call["database"], call["table"])


def _open(path: Any) -> tuple[ReadableContent, int | None]:
    file = open(path, "rb", buffering=0)  # noqa: SIM115 - it is the result
    try:
        refuse_archive(file.read(HEAD))
        file.seek(0, 2)
        size = file.tell()
        file.seek(0)
    except BaseException:
        file.close()
        raise
    return file, size


def _payload(value: Any, field: Field) -> str | None:
    return None if isinstance(value, str | bytes | memoryview | Payload) else "must be a string, or bytes in CBOR"


def _id_check(value: Any, field: Field) -> str | None:
    return None if len(value) <= 100 and value.isalnum() and value.isascii() else "is not the id of an upload"


_ID: Callable[..., Field] = Field("upload", "string", "As answered by `add_upload`.", required=True, check=_id_check).but
_HOLDER = Field("holder", "string", "A text that must be given again to load the file, such as the id of a session.", secret=True)
_FORMAT = Field("format", "choice", "`csv`, `json` (an array of records) or `ndjson` (one after the other).", choices=FORMATS)
_EXAMPLE_ID = "0b5e1c3e6f6b4c2e9f7a2f1d8a5f3c11"
_EXAMPLE: Mapping[str, Any] = {"database": "garden", "table": "plant", "upload": _EXAMPLE_ID}

OPERATIONS = (
    Operation(
        name="add_upload",
        category="bulk",
        summary="Keep a file with records for a load that follows.",
        permission=UPSERT,
        handler=add_upload,
        fields=(
            DATABASE,
            TABLE,
            Field("payload", "any", "The file: base64, in CBOR and MessagePack bytes.", required=True, secret=True, check=_payload),
            ACTION,
            _HOLDER,
        ),
        returns="The id under which it is kept, its size in bytes, and until when it is kept (ms since the epoch).",
        notes=f"It is kept for {KEPT_SECONDS / 3600:.0f} hour, until it is loaded, or until the process that took it ends. A file has at most "
        f"{MOST_BYTES >> 20} MiB. Of one user {OF_A_USER} are kept: a further one takes the place of the oldest. Only the user who has sent a file, with the "
        "same `holder`, can load it, and into this table. Compressed files are refused.",
        example={"database": "garden", "table": "plant", "payload": "aWQsc3BlY2llcwoxLGZlcm4K"},
        example_answer={"upload": _EXAMPLE_ID, "size": 18, "expires": 1767229200000},
        missing_status=400,
    ),
    Operation(
        name="read_upload",
        category="bulk",
        summary="Show the columns and the first rows of a file that is kept.",
        permission=UPSERT,
        handler=read_upload,
        fields=(DATABASE, TABLE, _ID(), _FORMAT, SEPARATOR, ENCODING, ACTION, _HOLDER),
        returns="`format`, `separator` and `quotes_mean_text` as they are, or seem to be; `columns`, each `{name, attribute, type}`; up to 20 `rows`, "
        "lists; `more`: whether there are others.",
        notes="`attribute` is the one that a column seems to be: that of its name, or of one that differs in case, spaces and signs; null if there is none. "
        "Quotes seem to mean text if all names are in quotes and some of the cells below are not, or if the header says so. "
        f"`type`: as declared, null if it is not. The first {ROWS} rows have to lie in the first {MOST_READ:,} characters. Long values are cut.",
        example=_EXAMPLE,
        example_answer={
            "format": "csv",
            "separator": ",",
            "quotes_mean_text": False,
            "columns": [{"name": "id", "attribute": "id", "type": "ID"}, {"name": "Species", "attribute": "species", "type": "String"}],
            "rows": [["1", "fern"]],
            "more": False,
        },
        missing_status=400,
        logged=False,
    ),
    Operation(
        name="load_upload",
        category="bulk",
        summary="Load the records of a file that is kept.",
        permission=UPSERT,
        handler=load_upload,
        fields=(DATABASE, TABLE, _ID(), _FORMAT.but(default=CSV), SEPARATOR, QUOTES, ENCODING, COLUMNS, ACTION, _HOLDER),
        returns=RETURNS,
        notes=f"The file is removed when the job begins. What CSV means is said at [`csv_data_load`](#csv_data_load).\n\n{NOTES}",
        example={**_EXAMPLE, "action": "upsert", "columns": {"Species": "species"}},
        example_answer=STARTED,
        missing_status=400,
        starts_job=True,
    ),
)
