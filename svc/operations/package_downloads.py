"""Fetching the archive of a package by the rules for outbound connections (spec: security §10, deployment §5)."""

from __future__ import annotations

import base64
import http.client
import os
from collections.abc import Callable
from pathlib import Path
from urllib.parse import SplitResult, unquote, urljoin, urlsplit

from svc.clock import SYSTEM_CLOCK
from svc.deploying.fetching import CheckHost, Credentials, DownloadTo
from svc.deploying.references import shown
from svc.deploying.unpacking import remove_tree, written_fault
from svc.errors import ClientError
from svc.operations.outbound import PORTS, HostRules, connect
from svc.store.backup.watch import Watch
from svc.store.values.conversion import printable

LARGEST = 256 << 20  # bytes of an archive
TIMEOUT = 30.0  # seconds to connect, and without a byte
LONGEST = 300.0  # seconds for all of it
MAX_REDIRECTS = 5

_PIECE = 1 << 17
_REDIRECTS = frozenset({301, 302, 303, 307, 308})


def downloader(rules: HostRules, on_start: Callable[[str], None]) -> tuple[DownloadTo, CheckHost]:
    """What a `Fetcher` needs of the network. `on_start` hears of each address that is asked."""

    def download(url: str, path: Path, credentials: Credentials | None, watch: Watch) -> None:
        on_start(f"fetches {shown(url)}")
        _download(url, path, credentials, watch, rules)

    def check_host(host: str, port: int) -> list[str]:
        return list(dict.fromkeys(resolved.address[0] for resolved in rules.permitted(host, port)))

    return download, check_host


def _download(url: str, path: Path, credentials: Credentials | None, watch: Watch, rules: HostRules) -> None:
    place = url
    deadline = SYSTEM_CLOCK.monotonic() + LONGEST
    for _ in range(MAX_REDIRECTS + 1):
        parts = _parts(place)
        if parts is None:
            raise _failed(url, "it leads to an address that is neither http nor https")
        assert parts.hostname is not None
        connection = connect(parts, rules.permitted(parts.hostname, parts.port or PORTS[parts.scheme]), TIMEOUT)
        try:
            connection.request("GET", (parts.path or "/") + (f"?{parts.query}" if parts.query else ""), headers=_fields(parts, credentials))
            with connection.getresponse() as response:
                location = response.getheader("Location")
                if response.status == 200:
                    _save(url, response, path, watch, deadline)
                    return
                if response.status not in _REDIRECTS or location is None:
                    raise _failed(url, f"status {response.status} {printable(response.reason or '')}".rstrip())
        except (OSError, http.client.HTTPException, ValueError) as error:
            raise _failed(url, _reason(error)) from None
        finally:
            connection.close()
        place = urljoin(place, location)
        if _origin(parts) != _origin(urlsplit(place)):
            credentials = None
    raise _failed(url, f"it redirects more than {MAX_REDIRECTS} times")


def _save(url: str, response: http.client.HTTPResponse, path: Path, watch: Watch, deadline: float) -> None:
    if response.length is not None and response.length > LARGEST:
        raise ClientError(f"The package {shown(url)} has more than {LARGEST} bytes", 413)
    size = 0
    try:
        with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600), "wb") as file:
            while data := response.read(_PIECE):
                size += len(data)
                if size > LARGEST:
                    raise ClientError(f"The package {shown(url)} has more than {LARGEST} bytes", 413)
                if SYSTEM_CLOCK.monotonic() > deadline:
                    raise _failed(url, f"it has not arrived within {LONGEST:.0f} s")
                try:
                    file.write(data)
                except OSError as error:
                    raise written_fault(error, path) from error
                watch.add(len(data))
            if response.length:
                raise _failed(url, "the connection was closed before the end")
    except BaseException:
        remove_tree(path)
        raise


def _parts(url: str) -> SplitResult | None:
    try:
        parts = urlsplit(url)
        good = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0 and url.isprintable() and " " not in url
    except ValueError:
        return None
    return parts if good else None


def _fields(parts: SplitResult, credentials: Credentials | None) -> dict[str, str]:
    fields = {"Accept": "application/gzip, application/x-tar, */*;q=0.5", "Accept-Encoding": "identity", "User-Agent": "svc"}
    if credentials is not None:
        fields["Authorization"] = credentials.field
    elif parts.username is not None:
        pair = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
        fields["Authorization"] = "Basic " + base64.b64encode(pair.encode()).decode()
    return fields


def _origin(parts: SplitResult) -> tuple[str, str | None, int | None]:
    return parts.scheme, parts.hostname, parts.port or PORTS.get(parts.scheme)


def _failed(url: str, reason: str) -> ClientError:
    return ClientError(f"The package {shown(url)} cannot be fetched: {reason}")


def _reason(error: Exception) -> str:
    if isinstance(error, TimeoutError):
        return "the server does not answer in time"
    if isinstance(error, OSError):
        return error.strerror or str(error) or type(error).__name__
    return type(error).__name__
