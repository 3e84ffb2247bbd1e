"""HTTP to a provider, whatever it answers."""

from __future__ import annotations

import asyncio
import gzip
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import httpx
import pytest

from svc.accounts.openid import fetching
from svc.accounts.openid.fetching import LONGEST, MOST, FetchedResponse, HttpFetch
from svc.errors import Problem
from tests.support.fakes import make_reactor

ADDRESS = "https://id.example/x"


def run(answer: Callable[[httpx.Request], Any], test: Callable[[HttpFetch], Awaitable[Any]]) -> Any:
    """`answer`: what the provider does."""

    async def main() -> Any:
        def make_client() -> httpx.AsyncClient:
            return httpx.AsyncClient(transport=httpx.MockTransport(answer), follow_redirects=False)

        fetch = HttpFetch("example", make_reactor(asyncio.get_running_loop()), make_client)
        try:
            return await test(fetch)
        finally:
            await fetch.close()

    return asyncio.run(main())


def get(answer: Callable[[httpx.Request], Any]) -> FetchedResponse:
    return run(answer, lambda fetch: fetch.get(ADDRESS, {"Authorization": "Bearer x"}))  # type: ignore[no-any-return]


def refused(answer: Callable[[httpx.Request], Any], status: int, says: str) -> None:
    with pytest.raises(Problem, match=says) as caught:
        get(answer)
    assert (caught.value.status_code, caught.value.code) == (status, "PROVIDER_UNAVAILABLE" if status == 503 else "PROVIDER_FAULT")
    assert caught.value.retryable is (status == 503)


class Pieces(httpx.AsyncByteStream):
    """A body that comes bit by bit. `last`: what is raised at the end; `is_closed`: that nobody waits for more."""

    def __init__(self, piece: bytes, count: int, last: Exception | None = None) -> None:
        self.piece, self.left, self.last = piece, count, last
        self.is_closed = False

    async def __aiter__(self) -> AsyncIterator[bytes]:
        while self.left:
            self.left -= 1
            yield self.piece
        if self.last is not None:
            raise self.last

    async def aclose(self) -> None:
        self.is_closed = True


def test_what_is_sent() -> None:
    seen: list[httpx.Request] = []

    def answer(request: httpx.Request) -> httpx.Response:
        seen.append(request)
        return httpx.Response(
            201, stream=Pieces(b'{"a":1}', 1), headers={"Cache-Control": "max-age=7", "Content-Type": "Application/JSON;x=y"}
        )

    assert get(answer) == FetchedResponse(201, "application/json", b'{"a":1}', 7.0)
    headers = seen[0].headers
    assert headers["authorization"] == "Bearer x" and headers["accept"] == "application/json" and headers["accept-encoding"] == "identity"
    run(answer, lambda fetch: fetch.post(ADDRESS, {"code": "a b&c"}, {}))
    assert seen[1].method == "POST" and seen[1].content == b"code=a+b%26c"
    assert seen[1].headers["content-type"] == "application/x-www-form-urlencoded"


@pytest.mark.parametrize("status", [300, 301, 302, 303, 307, 308, 304])
def test_redirects_are_not_followed(status: int) -> None:
    seen: list[str] = []

    def answer(request: httpx.Request) -> httpx.Response:
        seen.append(str(request.url))
        return httpx.Response(status, headers={"Location": "http://127.0.0.1:9925/"})

    refused(answer, 502, "leads to another address")
    assert seen == [ADDRESS]


def test_compressed_answers() -> None:
    bomb = gzip.compress(bytes(1 << 24))
    stream = Pieces(bomb, 1)
    refused(lambda request: httpx.Response(200, headers={"Content-Encoding": "gzip"}, stream=stream), 502, "compressed")
    assert stream.left == 1 and stream.is_closed


def test_endless_answers() -> None:
    stream = Pieces(b"x" * 10_000, 1 << 20)
    refused(lambda request: httpx.Response(200, stream=stream), 502, "longer than")
    assert stream.left > (1 << 20) - LONGEST / 10_000 - 2 and stream.is_closed


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (httpx.ConnectError("refused"), 503),
        (httpx.ConnectTimeout("x"), 503),
        (httpx.ReadTimeout("x"), 503),
        (httpx.PoolTimeout("x"), 503),
        (httpx.ReadError("reset"), 503),
        (httpx.ProxyError("x"), 503),
        (OSError("x"), 503),
        (httpx.RemoteProtocolError("not HTTP"), 502),
    ],
)
def test_connections_that_fail(error: Exception, status: int) -> None:
    def answer(request: httpx.Request) -> httpx.Response:
        raise error

    refused(answer, status, "provider example")
    refused(lambda request: httpx.Response(200, stream=Pieces(b"x", 1, error)), status, "provider example")


def test_a_silent_provider(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fetching, "SECONDS", 0.0)

    async def answer(request: httpx.Request) -> httpx.Response:
        await asyncio.Event().wait()
        raise AssertionError

    refused(answer, 503, "not answered within")


def test_no_more_than_so_many_at_a_time() -> None:
    running = most = 0
    gate, full = asyncio.Event(), asyncio.Event()

    async def answer(request: httpx.Request) -> httpx.Response:
        nonlocal running, most
        running += 1
        most = max(most, running)
        if running == MOST:
            full.set()
        await gate.wait()
        running -= 1
        return httpx.Response(200, stream=Pieces(b"", 0))

    async def test(fetch: HttpFetch) -> None:
        tasks = [asyncio.ensure_future(fetch.get(ADDRESS, {})) for _ in range(MOST + 5)]
        await full.wait()
        for _ in range(20):
            await asyncio.sleep(0)
        gate.set()
        await asyncio.gather(*tasks)

    run(answer, test)
    assert most == MOST


def test_without_the_library() -> None:
    def make_client() -> httpx.AsyncClient:
        raise ModuleNotFoundError("No module named 'httpx'")

    async def main() -> None:
        fetch = HttpFetch("example", make_reactor(asyncio.get_running_loop()), make_client)
        with pytest.raises(Problem, match=r"pip install 'svc\[accounts\]'") as caught:
            await fetch.get(ADDRESS, {})
        assert caught.value.status_code == 503 and caught.value.retryable is False
        await fetch.close()

    asyncio.run(main())


def test_certificates_that_cannot_be_read() -> None:
    attempts: list[int] = []

    def make_client() -> httpx.AsyncClient:
        attempts.append(1)
        if len(attempts) == 1:
            raise PermissionError
        return httpx.AsyncClient(transport=httpx.MockTransport(lambda request: httpx.Response(200, stream=Pieces(b"", 0))))

    async def main() -> None:
        fetch = HttpFetch("example", make_reactor(asyncio.get_running_loop()), make_client)
        with pytest.raises(Problem, match="certificates"):
            await fetch.get(ADDRESS, {})
        assert (await fetch.get(ADDRESS, {})).status == 200
        await fetch.close()

    asyncio.run(main())


def test_the_client_of_the_server(monkeypatch: pytest.MonkeyPatch) -> None:
    """It verifies certificates, follows nothing, and asks providers on this machine directly."""
    monkeypatch.setenv("HTTPS_PROXY", "http://proxy.example:3128")
    monkeypatch.setenv("ALL_PROXY", "http://proxy.example:3128")
    client = fetching._new_client()
    assert client.follow_redirects is False
    for address in ("http://localhost:4000/", "https://127.0.0.1/", "http://[::1]:4000/"):
        assert client._transport_for_url(httpx.URL(address)) is client._transport
    assert client._transport_for_url(httpx.URL("https://id.example/")) is not client._transport
    asyncio.run(client.aclose())
