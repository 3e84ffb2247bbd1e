"""Which server: addresses, `.env`, the socket of this machine."""

from pathlib import Path

import pytest

from svc.cli.arguments import UsageError
from svc.cli.target import cli_environment, local_target, parse_target, read_dot_env, target_text
from svc.config.document import write_document
from svc.root.location import Installation


@pytest.mark.parametrize(
    ("text", "url", "path"),
    [
        ("db.example", "https://db.example:9925", "/"),
        ("db.example:1234", "https://db.example:1234", "/"),
        ("DB.example", "https://db.example:9925", "/"),
        ("http://localhost:9925", "http://localhost:9925", "/"),
        ("http://localhost", "http://localhost:80", "/"),
        ("https://db.example/", "https://db.example:443", "/"),
        ("https://db.example/ops/", "https://db.example:443/ops", "/ops/"),
        ("[::1]:9925", "https://[::1]:9925", "/"),
        ("ann:x@db.example", "https://db.example:9925", "/"),
    ],
)
def test_addresses(text: str, url: str, path: str) -> None:
    target = parse_target(text)
    assert (target.url, target.path) == (url, path)


def test_user_and_password_inside_an_address() -> None:
    target = parse_target("https://an%20n:p%40ss@db.example")
    assert (target.user, target.password) == ("an n", "p@ss")
    assert "p@ss" not in repr(target)


@pytest.mark.parametrize("text", ["ftp://db", "https://", "http://a b", "db:port", "https://db:99999", "://x"])
def test_what_is_no_address(text: str) -> None:
    with pytest.raises(UsageError, match="target"):
        parse_target(text)


def test_a_password_is_not_repeated_in_the_refusal() -> None:
    with pytest.raises(UsageError) as caught:
        parse_target("ftp://ann:secret@db")
    assert "secret" not in str(caught.value)


def test_dot_env(tmp_path: Path) -> None:
    assert read_dot_env(tmp_path) == {}
    (tmp_path / ".env").write_text("# a=b\nSVC_CLI_TARGET=db\nexport X = 'a b' # c\nY=\"q#r\"\nZ=1 # two\n\nnothing\nE=\n")
    assert read_dot_env(tmp_path) == {"SVC_CLI_TARGET": "db", "X": "a b", "Y": "q#r", "Z": "1", "E": ""}
    assert cli_environment({"PATH": "/bin"}, tmp_path) == {"SVC_CLI_TARGET": "db"}
    assert cli_environment({"SVC_CLI_TARGET": "other", "SVC_CLI_USERNAME": "ann"}, tmp_path) == {
        "SVC_CLI_TARGET": "other",
        "SVC_CLI_USERNAME": "ann",
    }


def test_order_of_the_places_an_address_comes_from() -> None:
    environment = {"SVC_CLI_TARGET": "today", "CLI_TARGET": "former"}
    assert target_text("given", environment) == "given"
    assert target_text(None, environment) == "today"
    assert target_text(None, {"CLI_TARGET": "former"}) == "former"
    assert target_text(None, {}) == ""
    assert target_text("", environment) == ""  # target= is the server of this machine


def test_the_socket_of_this_machine(tmp_path: Path) -> None:
    environ = {"HOME": str(tmp_path)}
    file = tmp_path / "svc-config.yaml"
    installation = Installation(tmp_path, file, True)
    for document, expected in (
        ({}, tmp_path / "operations-server"),
        ({"operationsApi": {"network": {"domainSocket": "run/x"}}}, tmp_path / "run" / "x"),
        ({"operationsApi": {"network": {"domainSocket": "/run/x"}}}, Path("/run/x")),
        ({"operationsApi": {"network": None}}, tmp_path / "operations-server"),
    ):
        write_document(file, document)
        target = local_target(installation, environ)
        assert target is not None and target.socket == expected
    write_document(file, {"operationsApi": {"network": {"domainSocket": None}}})
    assert local_target(installation, environ) is None


def test_a_socket_whose_path_was_too_long_is_found_where_the_server_put_it(tmp_path: Path) -> None:
    from svc.root.known_roots import remember_root
    from svc.root.socket_path import socket_path

    environ = {"HOME": str(tmp_path)}
    root = tmp_path / ("x" * 100)
    root.mkdir()
    write_document(root / "svc-config.yaml", {})
    installation = Installation(root, root / "svc-config.yaml", True)
    usual = socket_path(root / "operations-server")
    target = local_target(installation, environ)
    assert target is not None and target.socket == usual != root / "operations-server"
    assert usual is not None
    remember_root(environ, installation.file, tmp_path / "elsewhere" / usual.name)
    target = local_target(installation, environ)
    assert target is not None and target.socket == tmp_path / "elsewhere" / usual.name
