"""Deploying applications, and the records of deployments (spec: operations §7)."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import AsyncIterator, Mapping
from functools import partial
from pathlib import Path
from typing import IO, Any

from svc.config.settings import SECTIONS
from svc.deploying.deployment import DeploymentRequest
from svc.deploying.fetching import Credentials
from svc.deploying.installing import TIMEOUT_MS, Install
from svc.deploying.names import BUILT_IN, check_project
from svc.deploying.payloads import Payload
from svc.deploying.references import parse_reference, project_of
from svc.errors import ClientError, NotFound, Problem
from svc.messages import Response
from svc.operations.call import Call
from svc.operations.components import INSTALL_COMMAND, INSTALL_TIMEOUT, PROJECT, make_fetcher
from svc.operations.deployment_records import PENDING, STATUSES
from svc.operations.deployments import Run, new_id
from svc.operations.fields import REPLICATED, Field, bad_request
from svc.operations.job import Job
from svc.operations.operation import NEVER_GRANTED, SUPER_USER, Operation
from svc.operations.threads import in_thread

MOST_LISTED = 200
NO_SOURCE = "Either payload or package must be provided"
TWO_SOURCES = "Both payload and package cannot be provided"

_PIECE = 1 << 17
_LOOK_PAUSE = 0.5  # seconds between two looks at a deployment of another process
_PAUSE = 15.0  # seconds after which a stream of events shows that it lives


async def deploy_component(call: Call) -> Any:
    package, payload = call["package"], call["payload"]
    if package is None and payload is None:
        raise bad_request(NO_SOURCE)
    if package is not None and payload is not None:
        raise bad_request(TWO_SOURCES)
    reference = None if package is None else parse_reference(package)
    project = call["project"] or (project_of(reference) if reference is not None else None)
    if not project:
        raise bad_request("'project' is required")
    check_project(project)
    if project in BUILT_IN and not call["force"]:
        raise bad_request(f"'{project}' is the name of a built-in component; 'force' must be true to deploy a project of this name")
    if package is None and (call["urlPath"] is not None or call["host"] is not None):
        raise bad_request("'urlPath' and 'host' are allowed with 'package' only")
    if package is not None and project in SECTIONS:
        raise bad_request(f"'{project}' is a section of svc-config.yaml, which cannot hold the package of an application; deploy a payload")
    deployments = call.node.deployments
    deployments.check_served_here(project)
    options = {"install": _shown_install(call), "urlPath": call["urlPath"], "host": call["host"]}
    install = Install(call["install_command"] or "", int(call["install_timeout"]))
    wish = DeploymentRequest(
        project,
        new_id(),
        None if payload is None else payload if isinstance(payload, Payload) else Payload.of(payload),
        reference,
        _credentials(call["credentials"]),
        install,
        deployments.trial_request(project, package, options),
    )
    restart, waits = call["restart"], call.arguments.get("wait") is not False
    release(call)
    run = await deployments.deploy(
        wish,
        lambda run: make_fetcher(call, run.watch, partial(deployments.report, run, "prepare")),
        package=package,
        options=options,
        user=call.username,
        restart=restart,
        waits=waits,
    )
    if not waits:
        return {"message": f"Deploying: {project}", "deployment_id": wish.deployment_id}
    answer = {"message": f"Successfully deployed: {project}", "deployment_id": wish.deployment_id}
    if restart is False:
        return answer
    answer["message"] += ", restarting svc"
    return answer if restart is True else await _roll(call, run, answer)


def release(call: Call) -> None:
    """Let go of the body, which may be large: a deployment takes its time."""
    if call.request is not None:
        call.request.content = b""
    call.arguments["payload"] = None
    call.body = {name: value for name, value in call.body.items() if name != "payload"}


async def _roll(call: Call, run: Run, answer: dict[str, Any]) -> Any:
    """Load the new version in a job: one instance after the other, if there are several."""
    deployments = call.node.deployments

    async def work(job: Job) -> str:
        await deployments.load(run)
        return str(answer["message"])

    try:
        started = await call.node.jobs.start(call, work, kind="restart_service")
    except BaseException:
        await deployments.leave(run)
        raise
    return {**answer, "restartJobId": started["job_id"]}


def _shown_install(call: Call) -> dict[str, Any] | None:
    found: dict[str, Any] = {}
    if call["install_command"] is not None:
        found["command"] = call["install_command"]
    if call["install_timeout"] != TIMEOUT_MS:
        found["timeout"] = int(call["install_timeout"])
    return found or None


def _credentials(given: Any) -> Credentials | None:
    if given is None:
        return None
    if isinstance(given, str):
        return Credentials("x-access-token", given)
    if isinstance(given, dict):
        name, word = given.get("username", "x-access-token"), given.get("password", given.get("token"))
        if isinstance(name, str) and ":" not in name and isinstance(word, str):
            return Credentials(name, word)
    raise bad_request("'credentials' must be a token, or an object with 'username' and 'password'")


# --- records ------------------------------------------------------------------------------------------------------------------------------


async def list_deployments(call: Call) -> Any:
    deployments = call.node.deployments
    project, status, since, until = (call[name] for name in ("project", "status", "since", "until"))

    def wanted(record: dict[str, Any]) -> bool:
        started = record["started_at"] or 0
        return (
            (project is None or record["project"] == project)
            and (status is None or record["status"] == status)
            and (since is None or started >= since)
            and (until is None or started <= until)
        )

    found = await deployments.records.select(wanted)
    start = int(call["offset"])
    page = found[start : start + int(call["limit"])]
    return {"deployments": [deployments.shown(record["deployment_id"]) or record for record in page], "total": len(found)}


async def get_deployment(call: Call) -> Any:
    deployment_id = call["deployment_id"]
    _, record, _ = await _now(call, deployment_id)
    if record is None:
        raise _unknown(deployment_id)
    accept = None if call.request is None else call.request.block.get("accept")
    if call.node.types.prefers_events(accept):
        fields = [("Content-Type", "text/event-stream"), ("Cache-Control", "no-cache, no-transform")]
        return Response(_events(call, deployment_id), pairs=fields)
    return record


async def _now(call: Call, deployment_id: str) -> tuple[int, dict[str, Any] | None, bool]:
    """How many events a deployment has noted, its record, None if there is none, and whether it goes on, here or in another process."""
    deployments = call.node.deployments
    found = deployments.running_here(deployment_id)
    record = deployments.records.get(deployment_id)
    if found is None and record is not None and record["status"] == PENDING:
        found = await deployments.running_elsewhere(deployment_id)
    if found is not None:
        return (*found, True)
    record = deployments.records.get(deployment_id)
    return (0 if record is None else len(record["event_log"])), record, False


async def _events(call: Call, deployment_id: str) -> AsyncIterator[bytes]:
    """Each event of a deployment, and its record when it has ended."""
    deployments = call.node.deployments
    sent = 0
    run: Run | None = None
    while True:
        run = deployments.running.get(deployment_id, run)
        changed = None if run is None else run.changed  # taken before the record is looked at
        noted, record, goes_on = await _now(call, deployment_id)
        if record is None:
            return
        if run is not None:
            noted = run.noted  # the log keeps less than that of a long one
        events = record["event_log"]
        new = min(max(noted - sent, 0), len(events))
        for event in events[len(events) - new :]:
            yield _event("progress", event)
        sent = noted
        if record["status"] != PENDING or not goes_on:
            yield _event("end", record)
            return
        if changed is None:  # another process deploys it
            await asyncio.sleep(_LOOK_PAUSE)
            continue
        try:
            await asyncio.wait_for(changed.wait(), _PAUSE)
        except TimeoutError:
            yield b":\n\n"


def _event(name: str, value: Mapping[str, Any]) -> bytes:
    return f"event: {name}\ndata: {json.dumps(value, ensure_ascii=False)}\n\n".encode(errors="replace")


async def get_deployment_payload(call: Call) -> Any:
    deployment_id = call["deployment_id"]
    record = call.node.deployments.records.get(deployment_id)
    path = call.node.deployments.layout.payload(deployment_id)
    if record is None:
        raise _unknown(deployment_id)
    try:
        file = await in_thread(lambda: path.open("rb"), undo=lambda file: file.close())
        size = os.fstat(file.fileno()).st_size  # the file may be removed now
    except OSError:
        raise NotFound(f"The payload of deployment '{deployment_id}' is not there any more") from None
    fields = [
        ("Content-Type", "application/gzip" if await in_thread(lambda: _is_gzip(file)) else "application/x-tar"),
        ("Content-Length", str(size)),
        ("Content-Disposition", f'attachment; filename="{record["project"]}.tar.gz"'),
        ("Cache-Control", "no-store, no-transform"),
    ]
    return Response(_FileBody(file), pairs=fields)


def _is_gzip(file: IO[bytes]) -> bool:
    begin = file.read(2)
    file.seek(0)
    return begin == b"\x1f\x8b"


class _FileBody:
    """A file in pieces, read on another thread."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self

    async def __anext__(self) -> bytes:
        piece = b"" if self._file.closed else await in_thread(lambda: self._file.read(_PIECE))
        if not piece:
            self._file.close()
            raise StopAsyncIteration
        return piece

    async def aclose(self) -> None:
        self._file.close()


async def delete_deployment_payload(call: Call) -> Any:
    deployment_id = call["deployment_id"]
    deployments = call.node.deployments
    record = deployments.shown(deployment_id)
    if record is None:
        raise _unknown(deployment_id)
    if record["status"] == PENDING:
        raise ClientError(f"Deployment '{deployment_id}' has not ended", 409, "CONFLICT")
    freed = await in_thread(partial(_remove, deployments.layout.payload(deployment_id)))
    return {"message": f"Deleted payload for deployment '{deployment_id}'", "deployment_id": deployment_id, "freed_bytes": freed}


def _remove(path: Path) -> int:
    try:
        size = path.stat().st_size
        path.unlink()
    except FileNotFoundError:
        return 0
    return size


def _unknown(deployment_id: str) -> Problem:
    return NotFound(f"Deployment '{deployment_id[:100]}' does not exist")


# --- rows ---------------------------------------------------------------------------------------------------------------------------------


def _payload(value: Any, field: Field) -> str | None:
    return None if isinstance(value, str | bytes | Payload) else "must be a string, or bytes in CBOR"


def _restart(value: Any, field: Field) -> str | None:
    return None if isinstance(value, bool) or value == "rolling" else 'must be a boolean, or "rolling"'


def _deployment_id(value: Any, field: Field) -> str | None:
    return None if len(value) <= 100 and value.replace("-", "").isalnum() and value.isascii() else "is not the id of a deployment"


PAYLOAD = Field(
    "payload",
    "any",
    "A tar archive, plain or compressed with gzip or Zstandard: base64, in CBOR and MessagePack bytes.",
    secret=True,
    check=_payload,
)
RESTART = Field("restart", "any", 'Whether the new version is loaded at once; `"rolling"`: in a job.', default=False, check=_restart)
_ID = Field("deployment_id", "string", "As answered by `deploy_component`.", required=True, check=_deployment_id)

_EXAMPLE_ID = "7d5a3c1e-0d5b-4d55-9d5e-1f2a3b4c5d6e"
_EXAMPLE_RECORD = {
    "deployment_id": _EXAMPLE_ID,
    "project": "shop",
    "package_identifier": None,
    "status": "success",
    "phase": "restart",
    "event_log": [{"time": 1767607200000, "phase": "prepare", "message": "unpacks 2048 bytes"}],
    "peer_results": [],
    "payload_hash": "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
    "payload_size": 2048,
    "started_at": 1767607200000,
    "completed_at": 1767607203000,
    "user": "admin",
    "rollback_of": None,
    "error": None,
}

OPERATIONS: tuple[Operation, ...] = (
    Operation(
        name="deploy_component",
        category="components",
        summary="Deploy a version of an application.",
        permission=NEVER_GRANTED,
        handler=deploy_component,
        fields=(
            PROJECT.but(required=False, sentence="Name of the application; default: from `package`."),
            PAYLOAD,
            Field("package", "string", "Where the application is, instead of `payload`; forms below."),
            RESTART,
            Field("force", "bool", "Also under the name of something built in, such as `rest`.", default=False),
            INSTALL_COMMAND,
            INSTALL_TIMEOUT,
            Field("urlPath", "string", "Path that the addresses of the application begin with; with `package`."),
            Field("host", "string", "Host that the application is served for; with `package`."),
            Field("credentials", "any", "For `package`: a token, or `{username, password}`. Not stored.", secret=True),
            Field("wait", "bool", "Whether it is answered when the deployment has ended; else when it has begun.", default=True),
            REPLICATED,
        ),
        returns='`message`, `deployment_id`; with `"restart": "rolling"` also `restartJobId`.',
        notes=(
            "The archive is unpacked into a directory of its own, packages it needs are installed there, and it is loaded in a process of its own. Only then"
            " does it take the place of the version before, in one step. An error anywhere, with status 400, 500 or 507, leaves that version serving. A second"
            " deployment of the same project meanwhile is 409.\n\n"
            "`package`: `file:/PATH` or `/PATH` (a directory is linked, an archive unpacked), `https://host/x.tar.gz`, `git+https://...#ref`,"
            " `git+ssh://...#ref`, `https://host/owner/repo#ref`, `owner/repo#ref` (GitHub), `pypi:NAME` or `pypi:NAME==VERSION` (the index of pip)."
            " `#semver:v1.2.3` means the tag `v1.2.3`. With `package`, the project gets an entry in `svc-config.yaml`.\n\n"
            "Without `restart` the running code stays until the next restart, and `get_status` has `restartRequired`. Without `wait`, `get_deployment` tells"
            " how it goes on."
        ),
        example={"project": "shop", "payload": "H4sIAAAAAAAC...", "restart": True},
        example_answer={"message": "Successfully deployed: shop, restarting svc", "deployment_id": _EXAMPLE_ID},
    ),
    Operation(
        name="list_deployments",
        category="components",
        summary="The records of deployments, the newest first.",
        permission=SUPER_USER,
        handler=list_deployments,
        fields=(
            Field("project", "string", "Only of this one."),
            Field("status", "choice", "Only with this one.", choices=STATUSES),
            Field("since", "number", "Begun at this time (ms) or later."),
            Field("until", "number", "Begun at this time (ms) or before."),
            Field("limit", "integer", "Largest number of deployments to return.", default=100, low=1, high=MOST_LISTED),
            Field("offset", "integer", "Number of deployments to skip.", default=0, low=0),
        ),
        returns="`deployments`, a list of records as of `get_deployment`; `total`.",
        example={"project": "shop", "limit": 1},
        example_answer={"deployments": [_EXAMPLE_RECORD], "total": 1},
    ),
    Operation(
        name="get_deployment",
        category="components",
        summary="The record of a deployment.",
        permission=SUPER_USER,
        handler=get_deployment,
        fields=(_ID,),
        returns="The record; `status` is `pending`, `success`, `failed` or `rolled_back`, `phase` is `prepare`, `load`, `replicate` or `restart`.",
        notes=(
            "With `Accept: text/event-stream`: an event `progress` for each entry of the log, and `end` with the record when the deployment has ended."
            " 404 if there is no such record."
        ),
        example={"deployment_id": _EXAMPLE_ID},
        example_answer=_EXAMPLE_RECORD,
        has_events=True,
    ),
    Operation(
        name="get_deployment_payload",
        category="components",
        summary="The archive that a deployment came with.",
        permission=NEVER_GRANTED,
        handler=get_deployment_payload,
        fields=(_ID,),
        returns="The archive as it was sent, as a download.",
        notes="Those of the last five deployments of each project are kept. 404 when it is gone.",
        example={"deployment_id": _EXAMPLE_ID},
    ),
    Operation(
        name="delete_deployment_payload",
        category="components",
        summary="Remove the archive that a deployment came with.",
        permission=SUPER_USER,
        handler=delete_deployment_payload,
        fields=(_ID,),
        returns="`message`, `deployment_id`, `freed_bytes`.",
        notes="409 while the deployment goes on. Once more: `freed_bytes` is 0.",
        example={"deployment_id": _EXAMPLE_ID},
        example_answer={"message": f"Deleted payload for deployment '{_EXAMPLE_ID}'", "deployment_id": _EXAMPLE_ID, "freed_bytes": 2048},
    ),
)
