"""A login that has begun at a provider: kept by the browser, used once."""

from __future__ import annotations

from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from svc.accounts.openid.attempts import KEY_FILE, LIFE, LONGEST_COOKIE, Attempt, Attempts
from svc.clock import FakeClock
from svc.errors import Overloaded, Problem
from svc.mail.sealing import Seal
from svc.messages import HeaderBlock, Request
from svc.store.system import ensure_account_tables
from tests.support.operations import OperationsNode

URI = "https://shop.example/login/example/callback"


@pytest.fixture
def node(tmp_path: Path) -> Iterator[OperationsNode]:
    with OperationsNode(tmp_path) as found:
        ensure_account_tables(found.store)
        yield found


@pytest.fixture
def attempts(node: OperationsNode, tmp_path: Path) -> Attempts:
    return Attempts(node.store, node.clock, Seal.from_directory(tmp_path / "keys", KEY_FILE))


def request(*cookies: str, scheme: str = "https") -> Request:
    found = Request(
        "GET", "/login/example", HeaderBlock([("host", "shop.example"), *((("cookie", "; ".join(cookies)),) if cookies else ())])
    )
    found.scheme = scheme
    return found


def given(attempts: Attempts, attempt: Attempt, scheme: str = "https") -> str:
    """The cookie that a browser gets."""
    asking = request(scheme=scheme)
    attempts.give(asking, attempt)
    return str(asking.response_headers.get("Set-Cookie"))


def value_of(cookie: str) -> str:
    return cookie.partition(";")[0]


def refused(code: str, attempts: Attempts, asking: Request, provider: str, state: str) -> None:
    with pytest.raises(Problem) as caught:
        attempts.found(asking, provider, state)
    assert (caught.value.status_code, caught.value.code) == (400, code)


def test_it_comes_back(attempts: Attempts) -> None:
    attempt = attempts.begin("example", URI, "/shop/", member="ann", account="1/2")
    cookie = given(attempts, attempt)
    assert cookie.startswith("__Host-svc-login-example=") and cookie.endswith("; Path=/; Max-Age=600; HttpOnly; SameSite=Lax; Secure")
    for secret in (attempt.state, attempt.nonce, attempt.verifier, "shop"):
        assert secret not in cookie and secret.encode() not in urlsafe_b64decode(value_of(cookie).partition("=")[2] + "==")
    assert attempts.found(request("a=b", value_of(cookie), "c=d"), "example", attempt.state) == attempt
    assert len({attempt.state, attempt.nonce, attempt.verifier}) == 3 and 43 <= len(attempt.verifier) <= 128


def test_without_tls(attempts: Attempts) -> None:
    attempt = attempts.begin("example", URI, "/")
    cookie = given(attempts, attempt, "http")
    assert cookie.startswith("svc-login-example=") and "Secure" not in cookie
    assert attempts.found(request(value_of(cookie), scheme="http"), "example", attempt.state) == attempt
    refused("LOGIN_NOT_BEGUN", attempts, request(value_of(cookie)), "example", attempt.state)  # over HTTPS only a __Host- cookie counts


def test_another_process_of_the_node(attempts: Attempts, node: OperationsNode, tmp_path: Path) -> None:
    attempt = attempts.begin("example", URI, "/")
    other = Attempts(node.store, node.clock, Seal.from_directory(tmp_path / "keys", KEY_FILE))
    assert other.found(request(value_of(given(attempts, attempt))), "example", attempt.state) == attempt
    stranger = Attempts(node.store, node.clock, Seal.from_directory(tmp_path / "others", KEY_FILE))
    refused("LOGIN_NOT_BEGUN", stranger, request(value_of(given(attempts, attempt))), "example", attempt.state)


def test_of_two_cookies_of_one_name_the_one_counts(attempts: Attempts) -> None:
    first, second = attempts.begin("example", URI, "/"), attempts.begin("example", URI, "/")
    both = request("__Host-svc-login-example=AAAA", value_of(given(attempts, first)), value_of(given(attempts, second)))
    assert attempts.found(both, "example", second.state) == second and attempts.found(both, "example", first.state) == first


def test_states_that_are_not_of_this_browser(attempts: Attempts) -> None:
    attempt, other = attempts.begin("example", URI, "/"), attempts.begin("example", URI, "/")
    asking = request(value_of(given(attempts, attempt)))
    for state in (other.state, "", "x", attempt.state[:-1], attempt.state + "x", "\ud800"):
        refused("LOGIN_STATE_MISMATCH", attempts, asking, "example", state)
    refused("LOGIN_NOT_BEGUN", attempts, request(), "example", attempt.state)


def test_the_cookie_of_another_provider(attempts: Attempts) -> None:
    attempt = attempts.begin("example", URI, "/")
    cookie = value_of(given(attempts, attempt))
    refused("LOGIN_NOT_BEGUN", attempts, request(cookie), "other", attempt.state)
    renamed = cookie.replace("svc-login-example", "svc-login-other")
    refused("LOGIN_NOT_BEGUN", attempts, request(renamed), "other", attempt.state)


@pytest.mark.parametrize("change", ["flip", "cut", "empty", "no base64", "long"])
def test_cookies_that_are_not_ours(attempts: Attempts, change: str) -> None:
    attempt = attempts.begin("example", URI, "/")
    name, _, value = value_of(given(attempts, attempt)).partition("=")
    raw = bytearray(urlsafe_b64decode(value + "=" * (-len(value) % 4)))
    raw[-1] ^= 1
    changed = {
        "flip": urlsafe_b64encode(raw).decode().rstrip("="),
        "cut": value[:20],
        "empty": "",
        "no base64": "é!",
        "long": value * 20,
    }[change]
    refused("LOGIN_NOT_BEGUN", attempts, request(f"{name}={changed}"), "example", attempt.state)


def test_what_was_sealed_for_something_else(attempts: Attempts) -> None:
    sealed = attempts._seal.close(msgspec.json.encode({"state": "x"}), "svc-login-example")
    value = urlsafe_b64encode(sealed).decode().rstrip("=")
    refused("LOGIN_NOT_BEGUN", attempts, request(f"__Host-svc-login-example={value}"), "example", "x")


def test_it_does_not_last(attempts: Attempts, node: OperationsNode) -> None:
    attempt = attempts.begin("example", URI, "/")
    asking = request(value_of(given(attempts, attempt)))
    clock: FakeClock = node.clock
    clock.advance(LIFE - 1)
    assert attempts.found(asking, "example", attempt.state) == attempt
    clock.advance(1)
    refused("LOGIN_EXPIRED", attempts, asking, "example", attempt.state)


def test_it_is_used_once(attempts: Attempts, node: OperationsNode) -> None:
    attempt = attempts.begin("example", URI, "/")
    node.wait(lambda: attempts.use(attempt))
    with pytest.raises(Problem) as caught:
        node.wait(lambda: attempts.use(attempt))
    assert (caught.value.status_code, caught.value.code) == (400, "LOGIN_USED")
    node.wait(lambda: attempts.use(attempts.begin("example", URI, "/")))
    rows = [raw for _, raw in attempts._table.scan(attempts._table.database.snapshot())]
    assert len(rows) == 2 and not any(attempt.state.encode() in raw for raw in rows)


def test_uses_are_bounded(attempts: Attempts, node: OperationsNode, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("svc.accounts.openid.attempts.MOST_USES", 1)
    node.wait(lambda: attempts.use(attempts.begin("example", URI, "/")))
    with pytest.raises(Overloaded):
        node.wait(lambda: attempts.use(attempts.begin("example", URI, "/")))


def test_the_end(attempts: Attempts) -> None:
    asking = request()
    attempts.end(asking, "example")
    assert asking.response_headers.get("Set-Cookie") == "__Host-svc-login-example=; Path=/; Max-Age=0; HttpOnly; SameSite=Lax; Secure"


def test_no_cookie_is_too_long_for_a_browser(attempts: Attempts) -> None:
    attempt = attempts.begin("example", "https://" + "x" * 900, "/" + "y" * 3000)
    cookie = given(attempts, attempt)
    assert len(value_of(cookie)) <= LONGEST_COOKIE + 50
    assert attempts.found(request(value_of(cookie)), "example", attempt.state).return_to == "/"
