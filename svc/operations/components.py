"""The applications below `componentsRoot` and their files (spec: operations §7)."""

from __future__ import annotations

import base64
import codecs
import json
import tempfile
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import IO, Any

from svc.apps import App
from svc.content.cbor_type import encode_cbor
from svc.deploying import files
from svc.deploying.fetching import Fetcher
from svc.deploying.installing import TIMEOUT_MS, Install, install
from svc.deploying.layout import Layout
from svc.deploying.names import check_project
from svc.deploying.packing import pack
from svc.deploying.references import parse_reference, shown
from svc.deploying.unpacking import remove_tree, unpack, written_fault
from svc.errors import NotFound
from svc.messages import Response
from svc.operations.call import Call
from svc.operations.deployments import new_id
from svc.operations.fields import REPLICATED, Field, bad_request
from svc.operations.operation import NEVER_GRANTED, SUPER_USER, Operation
from svc.operations.outbound import rules_for
from svc.operations.package_downloads import downloader
from svc.operations.ssh_files import SshFiles
from svc.operations.threads import in_thread
from svc.store.backup.watch import Watch
from svc.stubs.new_application import write_application

LOADED = "All components loaded successfully"
NOT_LOADED = "The component has not been loaded"

MAX_COMMAND = 10_000  # characters
MAX_DETAILS = 10_000  # characters of a traceback, its end
MOST_DETAILS = 10  # tracebacks of an application

_PIECE = 3 << 16  # bytes, whole groups of base64
_BYTES = {
    "hex": (bytes.hex, bytes.fromhex),
    "base64": (lambda data: base64.b64encode(data).decode(), lambda text: base64.b64decode(text, validate=True)),
}
_ENCODINGS = {
    "utf8": "utf-8", "utf-8": "utf-8", "latin1": "latin-1", "binary": "latin-1", "ascii": "ascii", "utf16le": "utf-16-le", "utf-16le": "utf-16-le",
    "ucs2": "utf-16-le",
}  # fmt: skip


def project_of(call: Call) -> str:
    """The name of the project. Raises ValidationError."""
    name: str = call["project"]
    check_project(name)
    return name


# --- the tree -----------------------------------------------------------------------------------------------------------------------------


async def get_components(call: Call) -> Any:
    node = call.node
    layout = node.deployments.layout
    entries = {**node.config.components, **node.deployments.entries}
    apps = {app.name: app for app in node.apps}

    def collect() -> list[dict[str, Any]]:
        budget = [files.MOST_ENTRIES]
        found = []
        for name in layout.projects():
            served = layout.served(name)
            if served is not None:
                entry = entries.get(name)
                package = {"package": shown(entry["package"])} if isinstance(entry, dict) and isinstance(entry.get("package"), str) else {}
                found.append({"name": name, **package, "entries": files.tree_of(served, budget)})
        return found

    found = await in_thread(collect)
    for component in found:
        component["status"] = _status(apps.get(component["name"]), node.instance, node.status.started_ms)
    return {"name": "components", "entries": found}


def _status(app: App | None, instance: int, started_ms: int) -> dict[str, Any]:
    if app is None:
        return {"status": "unknown", "message": NOT_LOADED, "lastChecked": {"workers": {}}}
    texts = [f"{key}: {text}" for key, entry in app.entries.items() for text in entry.messages]
    checked = max((entry.checked_ms for entry in app.entries.values()), default=0) or started_ms
    found = {"status": app.status, "message": "; ".join(texts) or LOADED, "lastChecked": {"workers": {str(instance): checked}}}
    details = [text[-MAX_DETAILS:] for entry in app.entries.values() for text in entry.details]
    return {**found, "details": details[:MOST_DETAILS]} if details else found


# --- files --------------------------------------------------------------------------------------------------------------------------------


async def get_component_file(call: Call) -> Any:
    project = project_of(call)
    layout, limit = call.node.deployments.layout, call.node.config.operations_api.component_file.max_size
    found = await in_thread(lambda: files.read_file(layout, project, call["file"], limit))
    encoding = call["encoding"]
    text = _BYTES[encoding][0](found.content) if encoding in _BYTES else found.content.decode(_ENCODINGS[encoding], "replace")
    return {"message": text, "size": found.size, "birthtime": found.birthtime, "mtime": found.mtime}


async def set_component_file(call: Call) -> Any:
    project, name = project_of(call), call["file"]
    limit = call.node.config.operations_api.component_file.max_size
    content = None if call["payload"] is None else _content(call["payload"], call["encoding"])
    if content is not None and len(content) > limit:
        raise files.too_large(project, name, limit)
    await change_files(call, project, name, lambda layout: files.write_file(layout, project, name, content))
    return f"Successfully set component: {name}"


async def change_files(call: Call, project: str, name: str, work: Callable[[Layout], None]) -> None:
    """Change a file of a project, and let the running application know of it."""
    deployments = call.node.deployments
    with deployments.changing_files(project):
        await in_thread(lambda: work(deployments.layout))
    await deployments.loads.change_files(
        deployments.layout.project(project), ["/".join(part for part in name.split("/") if part not in ("", "."))]
    )


def _content(text: str, encoding: str) -> bytes:
    try:
        if encoding in _BYTES:
            content: bytes = _BYTES[encoding][1](text)
            return content
        return codecs.encode(text, _ENCODINGS[encoding])
    except ValueError as error:
        raise bad_request(f"'payload' is not {encoding}: {error}") from None


# --- projects -----------------------------------------------------------------------------------------------------------------------------


def make_fetcher(call: Call, watch: Watch, on_line: Callable[[str], None] = lambda line: None) -> Fetcher:
    """What gets packages in the name of the caller."""
    root = call.node.config.root
    download, check_host = downloader(rules_for(call), on_line)
    return Fetcher(download, check_host, root / "ssh", watch, on_line, aliases=SshFiles(root).hosts)


async def add_component(call: Call) -> Any:
    project = project_of(call)
    deployments = call.node.deployments
    layout = deployments.layout
    template = call["template"]
    reference = None if template in (None, "default") else parse_reference(template)
    wanted = Install(call["install_command"] or "", int(call["install_timeout"]))
    watch = Watch()

    def work() -> None:
        if layout.exists(project):
            raise bad_request("Project already exists")
        new = layout.version(project, f"new-{new_id()}")
        try:
            layout.make()
            if reference is None:
                write_application(new, project)
            else:
                directory = make_fetcher(call, watch).fetch(reference, new)
                if directory is not None:
                    with tempfile.TemporaryFile(dir=layout.area) as file:
                        _copy(directory, new, file, watch)
            if reference is not None or wanted.command:
                install(new, wanted, watch, lambda line: None)
            new.rename(layout.project(project))
        except OSError as error:
            raise written_fault(error, new) from error
        finally:
            remove_tree(new)

    with deployments.changing(project):
        await in_thread(work, watch)
    deployments.loads.changed(layout.project(project))
    return f"Successfully added project: {project}"


def _copy(source: Path, target: Path, file: IO[bytes], watch: Watch) -> None:
    pack(source, file, watch=watch)
    file.seek(0)
    unpack(file, target, watch=watch)


async def drop_component(call: Call) -> Any:
    project, name = project_of(call), call["file"]
    deployments, restarts = call.node.deployments, call["restart"] is True
    ending = ", restarting svc" if restarts else ""
    deployments.check_served_here(project)
    if name is not None:
        await change_files(call, project, name, lambda layout: files.remove_file(layout, project, name))
        if restarts:
            await deployments.reload(project)
        return f"Successfully dropped: {project}/{name}{ending}"
    with deployments.changing(project):
        await deployments.drop(project, restarts=restarts)
    await deployments.clean()
    return f"Successfully dropped: {project}{ending}"


# --- packing ------------------------------------------------------------------------------------------------------------------------------


async def package_component(call: Call) -> Any:
    project = project_of(call)
    layout, watch = call.node.deployments.layout, Watch()

    def work() -> IO[bytes]:
        served = layout.served(project)
        if served is None:
            raise NotFound(f"Project '{project}' does not exist")
        file = tempfile.TemporaryFile(dir=call.node.config.root)  # noqa: SIM115 - it is the result
        try:
            pack(served, file, without_packages=call["skip_node_modules"], without_links=call["skip_symlinks"], watch=watch)
        except OSError as error:
            file.close()
            raise written_fault(error, served) from error
        except BaseException:
            file.close()
            raise
        return file

    file = await in_thread(work, watch, undo=lambda file: file.close())
    size = file.tell()
    file.seek(0)
    wanted = None if call.request is None else call.node.types.writer(call.request.block.get("accept") or "application/json").name
    head = b'{"project":' + json.dumps(project).encode() + b',"payload":"'
    if wanted == "application/json":
        length = len(head) + (size + 2) // 3 * 4 + 2
        return _streamed(_PackageBody(file, head, base64.b64encode, b'"}'), "application/json", length)
    if wanted == "application/cbor":
        # A map of two; the archive is bytes.
        head = b"\xa2" + encode_cbor("project") + encode_cbor(project) + encode_cbor("payload") + b"\x5b" + size.to_bytes(8, "big")
        return _streamed(_PackageBody(file, head, lambda data: data, b""), "application/cbor", len(head) + size)
    with file:
        return {"project": project, "payload": await in_thread(lambda: _base64(file))}


def _base64(file: IO[bytes]) -> str:
    pieces = []
    while data := file.read(_PIECE):
        pieces.append(base64.b64encode(data).decode("ascii"))
    return "".join(pieces)


def _streamed(body: _PackageBody, content_type: str, length: int) -> Response:
    fields = [("Content-Type", content_type), ("Content-Length", str(length)), ("Cache-Control", "no-store, no-transform")]
    return Response(body, pairs=fields)


class _PackageBody:
    """The answer in pieces, each read and encoded on another thread when the connection has room for it."""

    def __init__(self, file: IO[bytes], head: bytes, encode: Callable[[bytes], bytes], tail: bytes) -> None:
        self._file = file
        self._waiting = [head]
        self._encode = encode
        self._tail = tail

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self

    async def __anext__(self) -> bytes:
        if self._waiting:
            return self._waiting.pop()
        if not self._file.closed:
            piece = await in_thread(lambda: self._encode(self._file.read(_PIECE)))
            if piece:
                return piece
            self._file.close()
            if self._tail:
                return self._tail
        raise StopAsyncIteration

    async def aclose(self) -> None:
        self._file.close()


# --- rows ---------------------------------------------------------------------------------------------------------------------------------


def _command(value: Any, field: Field) -> str | None:
    return "must be a command for a shell" if "\0" in value or len(value) > MAX_COMMAND else None


PROJECT = Field("project", "string", "Name of the application: letters, digits, `-`, `_`.", required=True)
FILE = Field("file", "string", "Path below the directory of the application, with slashes.")
_ENCODING = Field("encoding", "choice", "Of the text.", default="utf8", choices=(*_ENCODINGS, *_BYTES))
INSTALL_COMMAND = Field(
    "install_command",
    "string",
    "Command for a shell, run in the directory, instead of installing what is missing with pip.",
    check=_command,
)
INSTALL_TIMEOUT = Field("install_timeout", "integer", "Milliseconds that installing may take.", default=TIMEOUT_MS, low=1, high=86_400_000)

OPERATIONS: tuple[Operation, ...] = (
    Operation(
        name="get_components",
        category="components",
        summary="The applications below `componentsRoot`, with their files and how they were loaded.",
        permission=SUPER_USER,
        handler=get_components,
        returns="A tree: `name`, `entries`; an application has `status`, and `package` if it was deployed by one.",
        notes=(
            f"Hidden names and directories of packages are left out, and so is what exceeds {files.MOST_ENTRIES} entries. `status.status` is `healthy`,"
            " `warning`, `error`, `loading`, or `unknown` for what is not loaded; `status.details` are the tracebacks of what was raised, if there are any."
        ),
        example={},
        example_answer={
            "name": "components",
            "entries": [
                {
                    "name": "shop",
                    "package": "acme/shop#v2",
                    "entries": [{"name": "config.yaml", "mtime": "2026-01-05T10:00:00.000Z", "size": 88}],
                    "status": {"status": "healthy", "message": LOADED, "lastChecked": {"workers": {"0": 1767607200000}}},
                }
            ],
        },
    ),
    Operation(
        name="get_component_file",
        category="components",
        summary="Read a file of an application.",
        permission=SUPER_USER,
        handler=get_component_file,
        fields=(PROJECT, FILE.but(required=True), _ENCODING),
        returns="`message` (the text), `size`, `birthtime`, `mtime`.",
        notes="404 if there is no such file, 413 if it is larger than `operationsApi.componentFile.maxSize`.",
        example={"project": "shop", "file": "config.yaml"},
        example_answer={
            "message": "rest: true\n",
            "size": 11,
            "birthtime": "2026-01-05T10:00:00.000Z",
            "mtime": "2026-01-05T10:00:00.000Z",
        },
    ),
    Operation(
        name="set_component_file",
        category="components",
        summary="Write a file of an application, or make a directory.",
        permission=NEVER_GRANTED,
        handler=set_component_file,
        fields=(
            PROJECT,
            FILE.but(required=True),
            Field("payload", "any string", "The text; without it a directory is made."),
            _ENCODING,
            REPLICATED,
        ),
        returns="A message.",
        notes=(
            "The file is replaced in one step. What can be applied at once is; changes of Python code wait for a restart, which `get_status` then says."
            " The next deployment replaces the whole directory."
        ),
        example={"project": "shop", "file": "notes.txt", "payload": "Opened in May.\n"},
        example_answer={"message": "Successfully set component: notes.txt"},
    ),
    Operation(
        name="add_component",
        category="components",
        summary="Create an application.",
        permission=NEVER_GRANTED,
        handler=add_component,
        fields=(
            PROJECT,
            Field("template", "string", "A package to begin with, as of `deploy_component`; default: a small application that works."),
            INSTALL_COMMAND,
            INSTALL_TIMEOUT,
            REPLICATED,
        ),
        returns="A message.",
        notes="It is loaded at the next restart. 400 `Project already exists`.",
        example={"project": "my-shop"},
        example_answer={"message": "Successfully added project: my-shop"},
    ),
    Operation(
        name="package_component",
        category="components",
        summary="Pack an application.",
        permission=SUPER_USER,
        handler=package_component,
        fields=(
            PROJECT,
            Field("skip_node_modules", "bool", "Leave out directories of packages.", default=False, aliases=("skip_packages",)),
            Field("skip_symlinks", "bool", "Leave out symbolic links.", default=False),
        ),
        returns="`project` and `payload`, a tar archive, gzipped; base64, in CBOR bytes.",
        notes="`.git`, `.svc`, `.venv`, `venv` and `__pycache__` are never in it. A link that leads out of the directory is 400, unless links are left out.",
        example={"project": "shop", "skip_packages": True},
        example_answer={"project": "shop", "payload": "H4sIAAAAAAAC..."},
    ),
    Operation(
        name="drop_component",
        category="components",
        summary="Remove an application, or one of its files.",
        permission=NEVER_GRANTED,
        handler=drop_component,
        fields=(PROJECT, FILE, Field("restart", "bool", "End the running application, too.", default=False), REPLICATED),
        returns="A message, also when there was nothing.",
        notes="Its entry in `svc-config.yaml` goes with it. Tables and their records stay. Without `restart` the application runs on until the next restart.",
        example={"project": "shop", "file": "notes.txt"},
        example_answer={"message": "Successfully dropped: shop/notes.txt"},
    ),
)
