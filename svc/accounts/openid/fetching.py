"""HTTP to providers: by an asynchronous client, never on the loop's time (spec: rows §2.6).

A provider may be slow, silent, down, or hostile. So a request has SECONDS for everything, an answer LONGEST bytes; redirects are not followed, content
codings not accepted (a few bytes could become gigabytes), cookies not kept. At most MOST requests run at a time, the others wait their turn within the
same seconds. Certificates are verified against the authorities of the operating system.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from svc.errors import Problem, ServerError

if TYPE_CHECKING:
    import httpx

    from svc.reactor import Reactor

SECONDS = 10.0  # for one request, name lookup, handshake and body included
CONNECT_SECONDS = 5.0
LONGEST = 1 << 18  # bytes of an answer
MOST = 20  # requests at a time
JSON = "application/json"

UNAVAILABLE = "PROVIDER_UNAVAILABLE"
FAULT = "PROVIDER_FAULT"
_AGENT = "svc"
_LOCAL_ADDRESSES = ("all://localhost", "all://127.0.0.1", "all://[::1]")


@dataclass(frozen=True, slots=True)
class FetchedResponse:
    """`media_type`: in lower case, without parameters. `max_age`: seconds for which it may be kept, None: it does not say."""

    status: int
    media_type: str
    body: bytes
    max_age: float | None = None


class Fetch(Protocol):
    """What asks a provider. Raises Problem: UNAVAILABLE, or FAULT for an answer that is none."""

    async def get(self, address: str, headers: Mapping[str, str]) -> FetchedResponse: ...

    async def post(self, address: str, form: Mapping[str, str], headers: Mapping[str, str]) -> FetchedResponse: ...

    async def close(self) -> None: ...


def unavailable(provider: str, reason: str) -> Problem:
    """503: it may work later."""
    return ServerError(f"The provider {provider} cannot be reached at the moment: {reason}. Try again later", 503, UNAVAILABLE)


def faulty(provider: str, what: str) -> Problem:
    """502: the provider does what no provider may do."""
    return ServerError(f"The provider {provider} has given a wrong answer: {what}", 502, FAULT)


class HttpFetch:
    """To one provider. `provider`: its name, for messages."""

    def __init__(self, provider: str, reactor: Reactor, make_client: Callable[[], httpx.AsyncClient] | None = None) -> None:
        """`make_client`: called on a helper thread, for it reads the certificates of the authorities."""
        self._provider = provider
        self._reactor = reactor
        self._make_client = make_client or _new_client
        self._client: asyncio.Future[httpx.AsyncClient] | None = None
        self._slots = asyncio.Semaphore(MOST)

    async def get(self, address: str, headers: Mapping[str, str]) -> FetchedResponse:
        return await self._send("GET", address, headers, None)

    async def post(self, address: str, form: Mapping[str, str], headers: Mapping[str, str]) -> FetchedResponse:
        return await self._send("POST", address, headers, form)

    async def close(self) -> None:
        client, self._client = self._client, None
        if client is not None:
            await (await client).aclose()

    async def _send(self, method: str, address: str, headers: Mapping[str, str], form: Mapping[str, str] | None) -> FetchedResponse:
        try:
            async with asyncio.timeout(SECONDS), self._slots:
                client = await self._opened()
                return await self._exchange(client, method, address, headers, form)
        except TimeoutError:
            raise unavailable(self._provider, f"it has not answered within {SECONDS:g} seconds") from None

    async def _opened(self) -> httpx.AsyncClient:
        """The client, which the first request makes."""
        if self._client is None:
            self._client = asyncio.get_running_loop().run_in_executor(self._reactor.executor, self._make_client)
        try:
            return await asyncio.shield(self._client)
        except (OSError, ImportError) as error:
            self._client = None  # what has failed is tried again
            if isinstance(error, ImportError):
                raise ServerError(
                    "Login with providers needs httpx: pip install 'svc[accounts]'", 503, UNAVAILABLE, retryable=False
                ) from None
            raise unavailable(self._provider, "the certificates of authorities cannot be read") from None

    async def _exchange(
        self, client: httpx.AsyncClient, method: str, address: str, headers: Mapping[str, str], form: Mapping[str, str] | None
    ) -> FetchedResponse:
        import httpx

        fields = {"Accept": JSON, "Accept-Encoding": "identity", "User-Agent": _AGENT, **headers}
        try:
            request = client.build_request(method, address, headers=fields, data=form)
            response = await client.send(request, stream=True)
            try:
                return await self._read(response)
            finally:
                await response.aclose()
        except httpx.TimeoutException:
            raise unavailable(self._provider, "it does not answer in time") from None
        except (httpx.RemoteProtocolError, httpx.InvalidURL, UnicodeError):
            raise faulty(self._provider, "it is cut off, or is not HTTP") from None
        except (httpx.HTTPError, OSError):
            raise unavailable(self._provider, "the connection has failed") from None

    async def _read(self, response: httpx.Response) -> FetchedResponse:
        headers = response.headers
        if response.is_redirect or 300 <= response.status_code < 400:
            raise faulty(self._provider, "it leads to another address, which is not followed")
        if headers.get("content-encoding", "identity").lower() != "identity":
            raise faulty(self._provider, "it is compressed, which was not asked for")
        body = bytearray()
        async for piece in response.aiter_raw():
            body += piece
            if len(body) > LONGEST:
                raise faulty(self._provider, f"it is longer than {LONGEST} bytes")
        return FetchedResponse(response.status_code, media_type_of(headers.get("content-type", "")), bytes(body), max_age_of(headers))


def _new_client() -> httpx.AsyncClient:
    import ssl

    import httpx

    return httpx.AsyncClient(
        verify=ssl.create_default_context(),
        timeout=httpx.Timeout(SECONDS, connect=CONNECT_SECONDS),
        limits=httpx.Limits(max_connections=MOST, max_keepalive_connections=0),  # logins are rare
        follow_redirects=False,
        mounts=dict.fromkeys(_LOCAL_ADDRESSES),  # never by way of a proxy
    )


def media_type_of(content_type: str) -> str:
    """
    >>> media_type_of("Application/JSON; charset=utf-8")
    'application/json'
    """
    return content_type.partition(";")[0].strip().lower()


def max_age_of(headers: Mapping[str, Any]) -> float | None:
    """Seconds of `Cache-Control: max-age`; 0 for what may not be kept.

    >>> max_age_of({"cache-control": "public, max-age=3600"}), max_age_of({"cache-control": "no-store"}), max_age_of({})
    (3600.0, 0.0, None)
    """
    found: float | None = None
    for directive in str(headers.get("cache-control", "")).lower().split(","):
        name, _, value = directive.strip().partition("=")
        if name in ("no-store", "no-cache"):
            return 0.0
        value = value.strip('"')
        if name == "max-age" and value.isascii() and value.isdecimal() and len(value) <= 10:
            found = float(value)
    return found
