"""`svc <operation> name=value ...`: find the server, send the operation, show the answer (spec: configuration §6.2, §6.3)."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from svc.cli.arguments import FAILED, Arguments, UsageError, existing_installation
from svc.cli.client import Answer, AuthenticationRefused, Client, Unreachable, error_sentence
from svc.cli.credentials import RemoteClient, SavedLogins, find_credentials
from svc.cli.jobs import JobLost, fault_lines, progress_bar, wait_for_job
from svc.cli.operation_arguments import OperationArguments, read_arguments
from svc.cli.output import OutputStyle, chosen_style, copy_json, printable, refuse, show, warn
from svc.cli.target import cli_environment, local_target, parse_target, target_text

if TYPE_CHECKING:
    from svc.operations.row_file import OperationRow

MUST_RUN = "svc must be running to perform this operation"
NO_SOCKET = "No domain socket found, unable to perform this operation"


class NotRunning(UsageError):
    """No server runs on this root."""


def run_operation(arguments: Arguments, row: OperationRow) -> int:
    """Carry out `svc <operation> ...`. Returns the exit status."""
    environment = cli_environment(os.environ, Path.cwd())
    given = next((word.partition("=")[2] for word in reversed(arguments.words) if word.startswith("target=")), None)
    address = target_text(given, environment)
    words = read_arguments(arguments.words, row, remote=bool(address))
    if address:
        client = remote_client(address, arguments, words, environment)
        if given is None and sys.stderr.isatty():  # a forgotten file should not drop a table elsewhere
            print(f"to {client.target.url}", file=sys.stderr)
    else:
        try:
            client = local_client(arguments)
        except NotRunning:
            from svc.cli.offline import OFFLINE, run_offline

            if row.name not in OFFLINE:
                raise
            return run_offline(arguments, row, words)
    return perform(client, row, {"operation": arguments.command, **words.body}, words, arguments)


def remote_client(address: str, arguments: Arguments, words: OperationArguments, environment: dict[str, str]) -> Client:
    """A client of another server, with the first complete credentials. Raises UsageError."""
    verified = "insecure" not in arguments.flags and words.switch("rejectUnauthorized", True) is not False
    target = parse_target(address, verified=verified)
    if not verified and target.scheme == "https":
        warn(f"the certificate of {target.host} is not verified")
    logins = SavedLogins.of_user(os.environ)
    return RemoteClient(target, find_credentials(target, words.parameters, environment, logins, warn), logins)


def local_client(arguments: Arguments) -> Client:
    """A client of the running server of this root, over its Unix socket. Raises UsageError with the messages of the specification."""
    from svc.cli.roots import without_server
    from svc.errors import ConfigError

    installation = existing_installation(arguments)
    if not installation.installed:
        raise NotRunning(f"{MUST_RUN}\n{without_server(installation)}")
    try:
        target = local_target(installation, os.environ)
    except ConfigError as error:
        raise UsageError(f"Error: {error}") from error
    if target is not None:
        client = Client(target)
        if client.is_listening():
            return client
    from svc.root.lock import running_pid

    if running_pid(installation.root) is not None:
        raise UsageError(NO_SOCKET)
    raise NotRunning(f"{MUST_RUN}\n{without_server(installation)}\nsvc start starts it there.")


def perform(client: Client, row: OperationRow, body: dict[str, Any], words: OperationArguments, arguments: Arguments) -> int:
    """Send one operation and show what comes back. Returns the exit status."""
    style = chosen_style(True if "json" in arguments.flags else words.switch("json"))
    waits = words.switch("wait", True)
    try:
        answer = client.send(body)
        with _closing(answer):
            if answer.status != 200:
                return refuse(answer.error_text())
            out = words.parameters.get("out")
            if out is not None:
                save(answer, Path(str(out)))
                return 0
            if not answer.is_json:
                return _show_bytes(answer, row)
            if style is OutputStyle.JSON and not row.starts_job and not sys.stdout.isatty():
                copy_json(answer)
                return 0
            result = answer.value()
        if waits and _job_id(row, result) is not None:
            return _follow(client, row, result, style)
        show(result, style)
    except (Unreachable, AuthenticationRefused, JobLost) as error:
        return refuse(str(error))
    except RecursionError:
        return refuse("The answer is nested too deeply to be shown; out=FILE keeps it as it is")
    return 0


@contextmanager
def _closing(answer: Answer) -> Iterator[None]:
    try:
        yield
    finally:
        answer.close()


# --- answers that are not JSON -------------------------------------------------------------------------------------------------------------


def save(answer: Answer, file: Path) -> None:
    """Write the body to a file, which appears when it is complete; with a bar on a terminal. Raises Unreachable, UsageError."""
    part = file.with_name(f".{file.name}.{os.getpid()}.part")
    try:
        descriptor = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)  # a backup holds what the server protects
        with open(descriptor, "wb") as stream, _transfer_bar(file.name, answer.length) as advance:
            for piece in answer.chunks():
                stream.write(piece)
                advance(len(piece))
            stream.flush()
            os.fsync(stream.fileno())
        part.replace(file)
    except OSError as error:
        raise UsageError(f"error: {file} cannot be written: {error.strerror}") from error
    finally:
        part.unlink(missing_ok=True)
    print(f"{file}: {file.stat().st_size} bytes", file=sys.stderr)


@contextmanager
def _transfer_bar(title: str, total: int | None) -> Iterator[Any]:
    if not sys.stderr.isatty():
        yield lambda count: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TransferSpeedColumn

    columns = TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TransferSpeedColumn()
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task(title, total=total)
        yield lambda count: progress.update(task, advance=count)


def _show_bytes(answer: Answer, row: OperationRow) -> int:
    """Give other content than JSON to a pipe as it is; a terminal gets only text."""
    if answer.content_type.startswith("text/"):
        text = answer.read().decode("utf-8", "replace")
        print(printable(text, lines=True) if sys.stdout.isatty() else text)
        return 0
    if sys.stdout.isatty():
        return refuse(f"{row.name} answers with bytes ({answer.content_type}), which are not for a terminal: out=FILE writes them")
    for piece in answer.chunks():
        sys.stdout.buffer.write(piece)
    sys.stdout.buffer.flush()
    return 0


# --- jobs -----------------------------------------------------------------------------------------------------------------------------------


def _job_id(row: OperationRow, result: Any) -> str | None:
    job_id = result.get("job_id") if isinstance(result, dict) else None
    return job_id if row.starts_job and isinstance(job_id, str) else None


def _follow(client: Client, row: OperationRow, started: dict[str, Any], style: OutputStyle) -> int:
    """Wait for the end of a job; its record is the result."""
    job_id = started["job_id"]
    try:
        with progress_bar(row.name) as bar:
            job = wait_for_job(client, job_id, bar)
    except KeyboardInterrupt:
        print(f"The job continues. Progress: svc get_job id={job_id}   Stop it: svc cancel_job id={job_id}", file=sys.stderr)
        return FAILED
    failed = job.get("status") != "COMPLETE"
    message = job.get("message")
    if style is not OutputStyle.HUMAN:
        show({"job_id": job_id, **job}, style)
    elif not failed:
        show(message if job.get("result") is None else {"message": message, "result": job["result"]}, style)
    if failed:
        status = refuse(message if isinstance(message, str) else _refusal_text(message))
        if style is OutputStyle.HUMAN:
            for fault in fault_lines(job.get("faults")):
                print(f"  {printable(fault)}", file=sys.stderr)
        return status
    return 0


def _refusal_text(message: Any) -> str:
    return error_sentence(message) if isinstance(message, dict) else str(message or "the job has failed")
