"""Getting what `package` points to (spec: deployment §5)."""

from __future__ import annotations

import os
import shlex
import shutil
import sys
from base64 import b64encode
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote, urlsplit

from svc.deploying.commands import CommandFailed, Outcome, clean_environment, run_command
from svc.deploying.references import ARCHIVES, Download, IndexPackage, LocalPath, Reference, Repository, shown
from svc.deploying.unpacking import DEFAULT_LIMITS, ArchiveLimits, remove_tree, unpack
from svc.errors import ClientError, NoSpace
from svc.store.backup.watch import Watch

SECONDS = 300.0  # for a repository, for a package of the index
PORTS = {"http": 80, "https": 443, "ssh": 22}

DownloadTo = Callable[[str, Path, "Credentials | None", Watch], None]
"""Fetches a URL into a new file, by the rules of the server for outbound connections. Raises Problem. Blocks."""
CheckHost = Callable[[str, int], list[str]]
"""The addresses of a host that may be connected to. Raises Problem 403. Blocks."""


@dataclass(frozen=True)
class Credentials:
    """For `http` and `https`; never stored."""

    username: str
    password: str

    @property
    def field(self) -> str:
        return "Basic " + b64encode(f"{self.username}:{self.password}".encode()).decode()


@dataclass(frozen=True)
class Fetcher:
    """`ssh`: the directory of the SSH keys. `aliases`: gives the names of hosts in its configuration.

    `watch`: ends it. `on_line`: gets what the programs say."""

    download: DownloadTo
    check_host: CheckHost
    ssh: Path
    watch: Watch
    on_line: Callable[[str], None] = lambda line: None
    limits: ArchiveLimits = DEFAULT_LIMITS
    aliases: Callable[[], frozenset[str]] = frozenset

    def fetch(self, reference: Reference, directory: Path, credentials: Credentials | None = None) -> Path | None:
        """Put a package into a new directory. Returns another directory instead, if that is to be linked. Raises Problem, Stopped."""
        match reference:
            case LocalPath(path):
                return self._local(path, directory)
            case Download(url):
                part = directory.with_name(f"{directory.name}.download")
                try:
                    self.download(url, part, credentials, self.watch)
                    self._unpack(part, directory)
                finally:
                    remove_tree(part)
            case Repository():
                self._clone(reference, directory, credentials)
            case IndexPackage():
                self._download_package(reference, directory)
        return None

    def _local(self, path: Path, directory: Path) -> Path | None:
        if path.is_dir():
            return path.resolve()
        if not path.is_file():
            raise ClientError(f"The package {path} does not exist on the server")
        self._unpack(path, directory)
        return None

    def _unpack(self, archive: Path, directory: Path) -> None:
        try:
            file = archive.open("rb")
        except OSError as error:
            raise ClientError(f"The package {archive.name} cannot be read: {error.strerror}") from error
        with file:
            unpack(file, directory, self.limits, self.watch)

    # --- repositories --------------------------------------------------------------------------------------------------------------------

    def _clone(self, repository: Repository, directory: Path, credentials: Credentials | None) -> None:
        if shutil.which("git") is None:
            raise ClientError("A package of a repository needs git, which is not installed on the server", 501)
        parts = urlsplit(repository.url)
        settings = {
            "protocol.allow": "never",
            f"protocol.{parts.scheme}.allow": "always",
            "http.followRedirects": "false",
            "core.symlinks": "true",
        }
        url = repository.url
        if parts.scheme in ("http", "https"):
            assert parts.hostname is not None
            port = parts.port or PORTS[parts.scheme]
            addresses = self.check_host(parts.hostname, port)
            settings["http.curloptResolve"] = f"{parts.hostname}:{port}:{','.join(_bracketed(each) for each in addresses)}"
            if parts.username is not None and credentials is None:
                credentials = Credentials(unquote(parts.username), unquote(parts.password or ""))
            url = parts._replace(netloc=parts.netloc.rpartition("@")[2]).geturl()
            if credentials is not None:
                settings["http.extraHeader"] = f"Authorization: {credentials.field}"
        elif parts.scheme == "ssh" and parts.hostname not in self.aliases():
            self.check_host(parts.hostname or "", parts.port or PORTS["ssh"])
        environment = clean_environment(os.environ, **_git_settings(settings), GIT_SSH_COMMAND=self._ssh_command(), GIT_CONFIG_NOSYSTEM="1")
        directory.mkdir(mode=0o700)
        self._git(["init", "--quiet"], directory, environment, repository)
        # The ref alone, not what the repository has had before.
        self._git(["fetch", "--depth=1", "--no-tags", "--quiet", url, repository.ref or "HEAD"], directory, environment, repository)
        self._git(["checkout", "--quiet", "--detach", "FETCH_HEAD"], directory, environment, repository)
        remove_tree(directory / ".git")
        self._check_size(directory)

    def _ssh_command(self) -> str:
        options = ["-o", "BatchMode=yes", "-o", f"UserKnownHostsFile={self.ssh / 'known_hosts'}"]
        config = self.ssh / "config"
        return shlex.join(["ssh", *(["-F", str(config)] if config.is_file() else []), *options])

    def _git(self, words: list[str], directory: Path, environment: Mapping[str, str], repository: Repository) -> None:
        outcome = run_command(["git", *words], directory, SECONDS, environment=environment, watch=self.watch, on_line=self.on_line)
        _check(outcome, f"The repository {shown(repository.url)}{'#' + repository.ref if repository.ref else ''} cannot be fetched")

    def _check_size(self, directory: Path) -> None:
        """The limits of an archive, and that no link leads out."""
        count = size = 0
        root = os.path.realpath(directory)
        for path, directories, names in os.walk(directory):
            self.watch.check()
            for name in [*directories, *names]:
                count += 1
                place = os.path.join(path, name)
                size += os.lstat(place).st_size
                if os.path.islink(place) and not f"{os.path.realpath(place)}{os.sep}".startswith(root + os.sep):
                    raise ClientError(f"'{os.path.relpath(place, directory)}' is a link that leads out of the repository")
        if count > self.limits.members or size > self.limits.size:
            raise ClientError(f"The repository has more than {self.limits.members} files or {self.limits.size} bytes")

    # --- the index of packages -----------------------------------------------------------------------------------------------------------

    def _download_package(self, package: IndexPackage, directory: Path) -> None:
        folder = directory.with_name(f"{directory.name}.download")
        folder.mkdir(mode=0o700)
        named = f"{package.name}=={package.version}" if package.version else package.name
        try:
            command = [
                sys.executable,
                "-m",
                "pip",
                "download",
                "--no-deps",
                "--no-input",
                "--disable-pip-version-check",
                "--progress-bar=off",
            ]
            outcome = run_command(
                [*command, "--dest", str(folder), "--", named],
                folder,
                SECONDS,
                environment=clean_environment(os.environ),
                watch=self.watch,
                on_line=self.on_line,
            )
            _check(outcome, f"The package {named} cannot be fetched")
            files = [path for path in folder.iterdir() if path.name.endswith(ARCHIVES)]
            if len(files) != 1:
                raise ClientError(f"The package {named} has no archive that can be unpacked")
            self._unpack(files[0], directory)
            _strip_wheel(directory)
        finally:
            remove_tree(folder)


def _strip_wheel(directory: Path) -> None:
    """A wheel holds packages and a directory about itself: an application in a package of it is what is wanted."""
    about = [path for path in directory.iterdir() if path.name.endswith((".dist-info", ".data"))]
    rest = [path for path in directory.iterdir() if path not in about]
    if not about:
        return
    for path in about:
        remove_tree(path)
    if len(rest) == 1 and rest[0].is_dir():
        aside = directory / ".svc-package"
        rest[0].rename(aside)
        for path in list(aside.iterdir()):
            path.rename(directory / path.name)
        aside.rmdir()


def _check(outcome: Outcome, what: str) -> None:
    if outcome.status == 0:
        return
    text = "\n".join(outcome.output[-8:])
    if "No space left on device" in text:
        raise NoSpace(f"No space left: {what}")
    why = f" within {SECONDS:.0f} s" if outcome.status is None else ""
    raise CommandFailed(f"{what}{why}\n{text}".rstrip())


def _git_settings(settings: Mapping[str, str]) -> dict[str, str]:
    """Settings of git in its environment: on its command line other users of the machine could read them."""
    found = {"GIT_CONFIG_COUNT": str(len(settings))}
    for number, (name, value) in enumerate(settings.items()):
        found[f"GIT_CONFIG_KEY_{number}"] = name
        found[f"GIT_CONFIG_VALUE_{number}"] = value
    return found


def _bracketed(address: str) -> str:
    return f"[{address}]" if ":" in address else address
