"""The order of credentials, saved tokens, their renewal."""

import json
from pathlib import Path
from typing import Any

import pytest

from svc.cli.arguments import UsageError
from svc.cli.client import AuthenticationRefused, Client, basic, bearer
from svc.cli.credentials import RemoteClient, RequestCredentials, SavedLogin, SavedLogins, find_credentials
from svc.cli.target import parse_target
from tests.support.cli import FakeAnswer

TODAY = {"SVC_CLI_USERNAME": "today", "SVC_CLI_PASSWORD": "t"}
FORMER = {"CLI_TARGET_USERNAME": "former", "CLI_TARGET_PASSWORD": "f"}
URL = "https://url-user:u@db.example"
LOGIN = SavedLogin("op-token", "refresh-token", "saved")


@pytest.fixture
def logins(tmp_path: Path) -> SavedLogins:
    return SavedLogins(tmp_path / "home" / ".svc" / "credentials.json")


def found(
    logins: SavedLogins, address: str = "https://db.example", environment: dict[str, str] | None = None, **parameters: Any
) -> RequestCredentials:
    warnings: list[str] = []
    return find_credentials(parse_target(address), parameters, environment or {}, logins, warnings.append)


def test_the_first_complete_pair_wins(logins: SavedLogins) -> None:
    logins.keep("https://db.example:443", LOGIN)
    everything = {"environment": TODAY | FORMER, "username": "field", "password": "x"}
    assert found(logins, URL, auth_username="a", auth_password="b", **everything).authorization == basic("a", "b")
    assert found(logins, URL, **everything).authorization == basic("url-user", "u")
    with_key = everything | {"environment": {"SVC_CLI_KEY": " svc_key ", **TODAY}}
    assert found(logins, URL, **with_key).authorization == basic("url-user", "u")
    assert found(logins, **with_key) == RequestCredentials("Bearer svc_key")
    assert found(logins, **everything).authorization == basic("today", "t")
    assert found(logins, **everything | {"environment": FORMER}).authorization == basic("former", "f")
    assert found(logins, **everything | {"environment": {}}) == RequestCredentials(bearer("op-token"), LOGIN)
    logins.remove_all()
    assert found(logins, **everything | {"environment": {}}).authorization == basic("field", "x")
    assert found(logins) == RequestCredentials(None)
    assert found(logins, username="only") == RequestCredentials(None)


@pytest.mark.parametrize("half", [{"auth_username": "a"}, {"auth_password": "b"}, {"auth_username": "a", "auth_password": ""}])
def test_half_a_pair_that_was_typed_is_refused(logins: SavedLogins, half: dict[str, str]) -> None:
    with pytest.raises(UsageError, match="auth_username and auth_password belong together"):
        found(logins, environment=TODAY, **half)
    with pytest.raises(UsageError, match="inside the URL belong together"):
        found(logins, "https://ann@db.example", environment=TODAY)


def test_half_a_pair_in_the_environment_is_skipped_and_pairs_are_never_mixed(logins: SavedLogins) -> None:
    warnings: list[str] = []
    environment = {"SVC_CLI_USERNAME": "today", **FORMER}
    credentials = find_credentials(parse_target("db"), {}, environment, logins, warnings.append)
    assert credentials.authorization == basic("former", "f")
    assert warnings == ["SVC_CLI_USERNAME is ignored, for SVC_CLI_PASSWORD is missing"]


def test_saved_tokens_are_for_their_owner_and_their_address(logins: SavedLogins) -> None:
    logins.keep("https://db.example:443", LOGIN)
    logins.keep("https://other:9925", SavedLogin("x", "y", "z"))
    assert logins.file.stat().st_mode & 0o777 == 0o600
    assert logins.file.parent.stat().st_mode & 0o777 == 0o700
    assert json.loads(logins.file.read_text())["https://db.example:443"] == {
        "operation_token": "op-token",
        "refresh_token": "refresh-token",
        "username": "saved",
    }
    assert logins.read()["https://db.example:443"] == LOGIN
    assert found(logins, "https://another.example") == RequestCredentials(None)
    assert "op-token" not in repr(found(logins)) + repr(LOGIN)


@pytest.mark.parametrize("content", ["", "[", "\x00"])
def test_a_file_that_is_not_ours_is_named(logins: SavedLogins, content: str) -> None:
    logins.file.parent.mkdir(parents=True)
    logins.file.write_text(content)
    with pytest.raises(UsageError, match="svc logout removes it"):
        logins.read()


@pytest.mark.parametrize("content", ["[]", "1", '{"x": 1}', '{"x": {"operation_token": 1, "refresh_token": "", "username": ""}}'])
def test_entries_that_nobody_can_use_do_not_count(logins: SavedLogins, content: str) -> None:
    logins.file.parent.mkdir(parents=True)
    logins.file.write_text(content)
    assert logins.read() == {}


# renewal


class Server:
    """Knows one token at a time. `asked`: (operation, authorization) of each request."""

    def __init__(self, valid: str, renewed: str | None) -> None:
        self.valid = valid
        self.renewed = renewed
        self.asked: list[tuple[str, str | None]] = []

    def send(self, client: Client, body: dict[str, Any], authorization: str | None = None) -> FakeAnswer:
        shown = client.authorization if authorization is None else authorization
        self.asked.append((body["operation"], shown))
        if body["operation"] == "refresh_operation_token":
            assert not shown
            if self.renewed is None:
                return FakeAnswer({"error": "token expired"}, 401)
            self.valid = self.renewed
            return FakeAnswer({"operation_token": self.renewed})
        return FakeAnswer([]) if shown == bearer(self.valid) else FakeAnswer({"error": "token expired"}, 401)


def remote(logins: SavedLogins, server: Server, monkeypatch: pytest.MonkeyPatch) -> RemoteClient:
    logins.keep("https://db.example:443", LOGIN)
    monkeypatch.setattr(Client, "send", lambda client, body, authorization=None: server.send(client, body, authorization))
    return RemoteClient(parse_target("https://db.example"), found(logins), logins)


def test_an_expired_token_is_renewed_once_and_kept(logins: SavedLogins, monkeypatch: pytest.MonkeyPatch) -> None:
    server = Server("another", "new-token")
    client = remote(logins, server, monkeypatch)
    assert client.send({"operation": "describe_all"}).status == 200
    assert client.send({"operation": "describe_all"}).status == 200
    assert [name for name, _ in server.asked] == ["describe_all", "refresh_operation_token", "describe_all", "describe_all"]
    assert logins.read()["https://db.example:443"] == SavedLogin("new-token", "refresh-token", "saved")


def test_a_login_that_has_ended_is_said_to_have(logins: SavedLogins, monkeypatch: pytest.MonkeyPatch) -> None:
    client = remote(logins, Server("another", None), monkeypatch)
    with pytest.raises(AuthenticationRefused, match=r"the login at https://db\.example:443 has expired; svc login"):
        client.send({"operation": "describe_all"})


def test_a_refused_password_is_not_renewed(logins: SavedLogins, monkeypatch: pytest.MonkeyPatch) -> None:
    server = Server("x", "y")
    remote(logins, server, monkeypatch)
    client = RemoteClient(parse_target("https://db.example"), RequestCredentials(basic("a", "b")), logins)
    assert client.send({"operation": "describe_all"}).status == 401
    assert len(server.asked) == 1


def test_why_a_saved_token_is_refused_is_told(logins: SavedLogins, monkeypatch: pytest.MonkeyPatch) -> None:
    client = remote(logins, Server("x", "y"), monkeypatch)
    monkeypatch.setattr(Client, "send", lambda *_: FakeAnswer({"error": "Cannot complete request: User is inactive"}, 401))
    with pytest.raises(AuthenticationRefused, match="User is inactive"):
        client.send({"operation": "describe_all"})
