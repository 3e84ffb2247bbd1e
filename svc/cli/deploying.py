"""`svc deploy` and `svc package` (spec: deployment §7)."""

from __future__ import annotations

import json
import os
import shutil
import sys
import tempfile
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext, suppress
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Protocol

from svc.cli.arguments import FAILED, Arguments, UsageError, complete_installation, named_directory
from svc.cli.client import Answer, AuthenticationRefused, Client, Unreachable, error_sentence
from svc.cli.jobs import JobLost, progress_bar, wait_for_job
from svc.cli.operation_arguments import OperationArguments, read_arguments
from svc.cli.operations import NotRunning, local_client, remote_client, save
from svc.cli.output import chosen_style, printable, refuse, show, warn
from svc.cli.target import cli_environment, target_text

if TYPE_CHECKING:
    from rich.text import Text

    from svc.operations.row_file import OperationRow

PIECE = 1 << 16
POLL = 0.3  # seconds between two looks at what the server does

OF_APPLICATION = ("config.yaml", "resources.py", "roles.yaml", "web", "routes", "data")

_TOLD_IGNORED = 10
_NO_PAYLOAD = "svc deploy packs a directory itself; svc deploy_component takes a payload"


def deploy(arguments: Arguments) -> int:
    """`svc deploy [DIR] [name=value ...]`. Returns the exit status."""
    directory, words = _split(arguments.words, "deploy")
    row, given, client = _prepared(arguments, words, "deploy_component")
    body = dict(given.body)
    if "payload" in body:
        raise UsageError(_NO_PAYLOAD)
    if directory is not None and "package" in body:
        raise UsageError("A directory and package= are given: one of them is enough")
    style = chosen_style(True if "json" in arguments.flags else given.switch("json"))
    body = {"operation": row.name, "restart": True, **body}
    shown = _Progress()
    try:
        if "package" in body:
            project = str(body.get("project") or "")
            with shown.following(client, project) if project else nullcontext():
                answer = client.send(body)
        else:
            place = named_directory(directory or ".").resolve()
            _check_application(place)
            project = body["project"] = str(body.get("project") or place.name)
            _check_name(project)
            with tempfile.TemporaryFile() as file:
                only = _kept_files(place)
                _check_limits(_pack(place, file, shown, only=only), place, only)
                _check(client, project)  # before it is sent: the login may have ended, or not suffice
                answer = _send(client, body, file, shown, project)
        return _show_end(client, answer, given, style)
    except (Unreachable, AuthenticationRefused, JobLost) as error:
        return refuse(str(error))
    except KeyboardInterrupt:
        print("Not waited for. If all of it was sent, the deployment goes on: svc list_deployments", file=sys.stderr)
        return FAILED


def package(arguments: Arguments) -> int:
    """`svc package NAME|DIR [out=FILE] [name=value ...]`. Returns the exit status."""
    name, words = _split(arguments.words, "package")
    if name is None:
        raise UsageError("svc package needs a name or a directory: svc package NAME|DIR [out=FILE]")
    is_remote = any(word.startswith("target=") and word != "target=" for word in words)
    if not is_remote and Path(name).expanduser().is_dir():
        place = named_directory(name).resolve()
        row = _row("package_component")
        given = read_arguments([f"project={place.name}", *words], row)
        return _pack_into(place, place.name, given, _kept_files(place))
    try:
        row, given, client = _prepared(arguments, [f"project={name}", *words], "package_component")
    except NotRunning:
        return _pack_stopped(arguments, name, words)
    body = {"operation": row.name, "skip_packages": True, **given.body}
    client.accept = "application/cbor, application/json;q=0.5"
    try:
        answer = client.send(body)
        if answer.status != 200:
            return refuse(_error_text(answer))
        save(_Archive(answer), _out(given, name))  # type: ignore[arg-type]
    except (Unreachable, AuthenticationRefused) as error:
        return refuse(str(error))
    return 0


# --- arguments ----------------------------------------------------------------------------------------------------------------------------


def _split(words: list[str], command: str) -> tuple[str | None, list[str]]:
    """The first word that is no `name=value`, and the others."""
    plain = [word for word in words if "=" not in word]
    if len(plain) > 1:
        raise UsageError(f'The command "{command}" takes no argument "{plain[1]}".')
    return (plain[0] if plain else None), [word for word in words if "=" in word]


def _row(name: str) -> OperationRow:
    from svc.operations.row_file import rows_by_name

    return rows_by_name()[name]


def _prepared(arguments: Arguments, words: list[str], name: str) -> tuple[OperationRow, OperationArguments, Client]:
    """The row of the operation, its arguments, and a client of the server that is meant. Raises UsageError."""
    arguments.no_options_but("rootpath")
    environment = cli_environment(os.environ, Path.cwd())
    address = target_text(next((word.partition("=")[2] for word in reversed(words) if word.startswith("target=")), None), environment)
    row = _row(name)
    given = read_arguments(words, row, remote=bool(address))
    client = remote_client(address, arguments, given, environment) if address else local_client(arguments)
    return row, given, client


# --- packing ------------------------------------------------------------------------------------------------------------------------------


def _kept_files(directory: Path) -> frozenset[str] | None:
    """The files that are to be packed; None: all. What `.gitignore` names is told, as far as it stands in the directory itself."""
    from svc.deploying.ignored import CACHES, GitMissing, kept_files
    from svc.deploying.names import HIDDEN

    try:
        kept = kept_files(directory)
    except GitMissing:
        warn("git is not installed, so what .gitignore names is packed, too")
        return None
    if kept is not None:
        names = sorted(entry.name for entry in directory.iterdir() if entry.name not in kept | HIDDEN | CACHES)
        if names:
            told = ", ".join([printable(name) for name in names[:_TOLD_IGNORED]]) + (", ..." if len(names) > _TOLD_IGNORED else "")
            print(f"left out, as .gitignore says: {told}", file=sys.stderr)
    return kept


def _pack(
    directory: Path,
    file: IO[bytes],
    shown: _Progress,
    *,
    without_packages: bool = True,
    without_links: bool = False,
    only: frozenset[str] | None = None,
) -> int:
    """Returns the number of members. Raises UsageError."""
    from svc.deploying.packing import CannotPack, pack, size_of
    from svc.store.backup.watch import Watch

    try:
        with shown.transfer(f"packing {directory.name}", size_of(directory, without_packages=without_packages, only=only)) as advance:
            told = 0

            def report(done: int, total: int) -> None:
                nonlocal told
                advance(done - told)
                told = done

            count = pack(directory, file, without_packages=without_packages, without_links=without_links, only=only, watch=Watch(report))
    except CannotPack as error:
        raise UsageError(f"error: {printable(error.message)}") from error
    except OSError as error:
        raise UsageError(f"error: {error.filename or directory} cannot be packed: {error.strerror or error}") from error
    file.flush()
    shown.line(f"packed {directory.name}: {count} files and directories, {file.tell()} bytes")
    return count


def _check_application(directory: Path) -> None:
    """Raises UsageError for a directory with nothing of an application in it: a home, for instance, should not be sent by mistake."""
    if not any((directory / name).exists() for name in OF_APPLICATION) and not any(directory.glob("*.graphql")):
        raise UsageError(
            f"error: {directory} does not look like an application: it has neither a schema (*.graphql) nor any of {', '.join(OF_APPLICATION)}"
        )


def _check_name(project: str) -> None:
    """Raises UsageError for a name that the server would refuse once all is there."""
    from svc.deploying.names import project_fault

    fault = project_fault(project)
    if fault is not None:
        raise UsageError(f"error: {fault}, not {printable(project[:200])}; project=NAME gives it another one")


def _check_limits(count: int, directory: Path, only: frozenset[str] | None) -> None:
    """Raises UsageError for what the server would refuse once it is there."""
    from svc.deploying.packing import size_of
    from svc.deploying.unpacking import DEFAULT_LIMITS

    if count >= DEFAULT_LIMITS.members:
        raise UsageError(f"error: {directory} has {count} files and directories; an application may have {DEFAULT_LIMITS.members}")
    size = size_of(directory, only=only)
    if size > DEFAULT_LIMITS.size:
        raise UsageError(f"error: {directory} has {size} bytes; an application may have {DEFAULT_LIMITS.size}")


def _pack_into(place: Path, name: str, given: OperationArguments, only: frozenset[str] | None = None) -> int:
    out = _out(given, name)
    part = out.with_name(f".{out.name}.{os.getpid()}.part")
    without_packages = given.body.get("skip_packages", given.body.get("skip_node_modules", True)) is not False
    try:
        with tempfile.TemporaryFile() as packed:  # `out` may be in the directory itself
            without_links = given.body.get("skip_symlinks") is True
            _pack(place, packed, _Progress(), without_packages=without_packages, without_links=without_links, only=only)
            packed.seek(0)
            with open(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600), "wb") as file:
                shutil.copyfileobj(packed, file)
        part.replace(out)
    except OSError as error:
        raise UsageError(f"error: {out} cannot be written: {error.strerror}") from error
    finally:
        part.unlink(missing_ok=True)
    print(f"{out}: {out.stat().st_size} bytes", file=sys.stderr)
    return 0


def _pack_stopped(arguments: Arguments, name: str, words: list[str]) -> int:
    """An application of this root, whose server does not run."""
    from svc.cli.preparing import read_config
    from svc.deploying.names import project_fault

    place = read_config(complete_installation(arguments), arguments).components_root / name
    if project_fault(name) is not None or not place.is_dir():
        raise UsageError(f"error: there is neither a directory {name} here nor an application of this name in {place.parent}")
    return _pack_into(place.resolve(), name, read_arguments([f"project={name}", *words], _row("package_component")))


def _out(given: OperationArguments, name: str) -> Path:
    return Path(str(given.parameters.get("out") or f"{name}.tar.gz")).expanduser()


# --- sending ------------------------------------------------------------------------------------------------------------------------------


def _check(client: Client, project: str) -> None:
    """Whether the server will take what is sent. Raises Unreachable with its words."""
    answer = client.send({"operation": "list_deployments", "project": project, "limit": 1})
    if answer.status != 200:
        raise Unreachable(answer.error_text())
    answer.close()


def _send(client: Client, body: Mapping[str, Any], file: IO[bytes], shown: _Progress, project: str) -> Answer:
    """As CBOR, with the archive as bytes."""
    import cbor2

    size = file.tell()
    file.seek(0)
    members = b"".join(cbor2.dumps(key) + cbor2.dumps(value) for key, value in body.items())
    head = bytes([0xA0 + len(body) + 1]) + members + cbor2.dumps("payload") + b"\x5b" + size.to_bytes(8, "big")

    def pieces() -> Iterator[bytes]:
        with shown.transfer("sending", size) as advance:
            yield head
            while piece := file.read(PIECE):
                yield piece
                advance(len(piece))
        shown.line(f"sent to {client.target.url or 'the server of this machine'}")

    with shown.following(client, project):
        return client.send_upload(pieces(), len(head) + size, "application/cbor")


def _show_end(client: Client, answer: Answer, given: OperationArguments, style: Any) -> int:
    try:
        if answer.status != 200:
            return refuse(answer.error_text())
        result = answer.value()
    finally:
        answer.close()
    job_id = result.get("restartJobId")
    if isinstance(job_id, str) and given.switch("wait", True):
        with progress_bar("restart") as bar:
            job = wait_for_job(client, job_id, bar)
        if job.get("status") != "COMPLETE":
            return refuse(str(job.get("message") or "the job has failed"))
    show(result if style.name == "JSON" else result["message"], style)
    return 0


class _Archive:
    """The bytes of the archive in an answer in CBOR, for `save`."""

    def __init__(self, answer: Answer) -> None:
        self._answer = answer
        self.length = answer.length

    def chunks(self) -> Iterator[bytes]:
        mark = b"\x67payload\x5b"
        head = b""
        pieces = self._answer.chunks()
        for piece in pieces:
            head += piece
            at = head.find(mark)
            if at >= 0 and len(head) >= at + len(mark) + 8:
                yield head[at + len(mark) + 8 :]
                break
            if len(head) > PIECE:
                raise Unreachable("The answer holds no archive")
        yield from pieces


def _error_text(answer: Answer) -> str:
    import cbor2

    content = answer.read()
    with suppress(Exception):
        body = json.loads(content) if answer.is_json else cbor2.loads(content)
        return error_sentence(body) or f"status {answer.status}"
    return f"status {answer.status}"


# --- progress -----------------------------------------------------------------------------------------------------------------------------


class _Advance(Protocol):
    def __call__(self, count: int, /) -> Any: ...


class _Progress:
    """What happens, on standard error: bars and a line that changes on a terminal, else a line for each step."""

    def __init__(self) -> None:
        self.is_terminal = sys.stderr.isatty()
        self._seen: dict[str, int] = {}

    def line(self, text: str) -> None:
        if not self.is_terminal:
            print(printable(text), file=sys.stderr, flush=True)

    @contextmanager
    def transfer(self, title: str, total: int) -> Iterator[_Advance]:
        if not self.is_terminal:
            yield lambda count: None
            return
        from rich.console import Console
        from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TransferSpeedColumn

        columns = TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TransferSpeedColumn()
        with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
            task = progress.add_task(printable(title), total=total)
            yield lambda count: progress.update(task, advance=count)

    @contextmanager
    def following(self, client: Client, project: str) -> Iterator[None]:
        """Show what the server does with the deployment of a project that begins now."""
        before = _newest(client, project)
        ended = threading.Event()
        thread = threading.Thread(target=self._follow, args=(client, project, before, ended), name="progress", daemon=True)
        thread.start()
        try:
            yield
        finally:
            ended.set()
            thread.join()

    def _follow(self, client: Client, project: str, before: str, ended: threading.Event) -> None:
        if not self.is_terminal:
            while not ended.wait(POLL):
                self._take(client, project, before, self.line)
            self._take(client, project, before, self.line)
            return
        from rich.console import Console

        last = ["waiting for the server"]
        while not ended.wait(POLL):
            if self._take(client, project, before, last.append):
                break  # the archive is there: until then its own bar is shown
        with Console(stderr=True).status(_line(last[-1])) as status:
            while not ended.wait(POLL):
                self._take(client, project, before, lambda text: status.update(_line(text)))

    def _take(self, client: Client, project: str, before: str, tell: Any) -> bool:
        """Tell the events that are new. Returns whether the deployment has begun."""
        record = _record(client, project)
        deployment_id = record.get("deployment_id")
        if not isinstance(deployment_id, str) or deployment_id == before:
            return False
        events = record.get("event_log") or []
        for event in events[self._seen.get(deployment_id, 0) :]:
            tell(f"{event.get('phase')}: {event.get('message')}")
        self._seen[deployment_id] = len(events)
        return True


def _line(text: str) -> Text:
    """As it is, whatever looks like markup."""
    from rich.text import Text

    return Text(printable(text))


def _record(client: Client, project: str) -> Mapping[str, Any]:
    """The newest deployment of a project; empty if that cannot be learned."""
    try:
        answer = client.send({"operation": "list_deployments", "project": project, "limit": 1})
        if answer.status != 200:
            answer.close()
            return {}
        found = answer.value()["deployments"]
    except (Unreachable, AuthenticationRefused, KeyError, TypeError):
        return {}
    return found[0] if found and isinstance(found[0], dict) else {}


def _newest(client: Client, project: str) -> str:
    return str(_record(client, project).get("deployment_id") or "")
