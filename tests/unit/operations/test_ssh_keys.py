"""SSH keys, known hosts, and what is not available (`ssh_keys`, `unavailable`)."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from svc.errors import Problem
from svc.operations.registry import by_name
from tests.support.operations import OperationsNode

KEY = "-----BEGIN OPENSSH PRIVATE KEY-----\nS3CRET\nlines\n-----END OPENSSH PRIVATE KEY-----\n"
OTHER_KEY = "-----BEGIN PRIVATE KEY-----\nOTHER\n-----END PRIVATE KEY-----"
ENTRY = {"name": "deploy", "key": KEY, "host": "shop.github.com", "hostname": "github.com"}


@pytest.fixture
def node(tmp_path: Path) -> Iterator[OperationsNode]:
    with OperationsNode(tmp_path / "the root") as node:
        yield node


def files(node: OperationsNode) -> dict[str, str]:
    directory = node.root / "ssh"
    return {path.name: path.read_text() for path in directory.iterdir()} if directory.exists() else {}


def refused(node: OperationsNode, operation: str, **fields: Any) -> tuple[int, str]:
    before = files(node)
    with pytest.raises(Problem) as caught:
        node.run(operation, **fields)
    assert files(node) == before
    return caught.value.status_code, caught.value.message


def test_a_key_is_added_with_a_configuration_for_ssh(node: OperationsNode) -> None:
    assert node.run("add_ssh_key", **ENTRY) == {"message": "Added ssh key: deploy"}
    found = files(node)
    assert found["deploy.key"] == KEY
    path = node.root / "ssh"
    assert found["config"].endswith(
        f'\n# deploy\nHost shop.github.com\n    HostName github.com\n    User git\n    IdentityFile "{path}/deploy.key"\n'
        f'    IdentitiesOnly yes\n    UserKnownHostsFile "{path}/known_hosts"\n'
    )
    assert found.keys() == {"deploy.key", "keys.json", "config"}
    assert {file.stat().st_mode & 0o777 for file in path.iterdir()} == {0o600}
    assert path.stat().st_mode & 0o777 == 0o700


def test_a_key_never_leaves(node: OperationsNode) -> None:
    node.run("add_ssh_key", **ENTRY)
    assert node.run("get_ssh_key", name="deploy") == {"name": "deploy", "host": "shop.github.com", "hostname": "github.com"}
    assert node.run("list_ssh_keys") == [{"name": "deploy"}]
    assert "S3CRET" not in json.dumps(files(node)["keys.json"] + files(node)["config"])
    assert by_name()["add_ssh_key"].secrets == by_name()["update_ssh_key"].secrets == {"key"}


def test_only_what_is_given_is_updated(node: OperationsNode) -> None:
    node.run("add_ssh_key", **ENTRY)
    assert node.run("update_ssh_key", name="deploy", key=OTHER_KEY) == {"message": "Updated ssh key: deploy"}
    assert files(node)["deploy.key"] == OTHER_KEY + "\n"
    node.run("update_ssh_key", name="deploy", hostname="example.com")
    assert node.run("get_ssh_key", name="deploy") == {"name": "deploy", "host": "shop.github.com", "hostname": "example.com"}
    node.run("update_ssh_key", name="deploy", host="other")
    assert "Host other\n" in files(node)["config"]
    assert files(node)["deploy.key"] == OTHER_KEY + "\n"


def test_keys_are_listed_by_name_and_deleted(node: OperationsNode) -> None:
    assert node.run("list_ssh_keys") == []
    node.run("add_ssh_key", **{**ENTRY, "name": "b"})
    node.run("add_ssh_key", **{**ENTRY, "name": "a", "host": "a"})
    assert node.run("list_ssh_keys") == [{"name": "a"}, {"name": "b"}]
    assert node.run("delete_ssh_key", name="b") == {"message": "Deleted ssh key: b"}
    assert node.run("list_ssh_keys") == [{"name": "a"}]
    assert files(node).keys() == {"a.key", "keys.json", "config"}
    assert "shop.github.com" not in files(node)["config"]


def test_line_ends_of_another_system(node: OperationsNode) -> None:
    node.run("add_ssh_key", **{**ENTRY, "key": "\r\n" + KEY.replace("\n", "\r\n")})
    assert files(node)["deploy.key"] == KEY


def test_known_hosts(node: OperationsNode) -> None:
    assert node.run("get_ssh_known_hosts") == {"known_hosts": ""}
    assert node.run("set_ssh_known_hosts", known_hosts="a ssh-ed25519 AAAA\r\n# b") == {"message": "Known hosts successfully set"}
    assert node.run("get_ssh_known_hosts") == {"known_hosts": "a ssh-ed25519 AAAA\n# b\n"}
    node.run("add_ssh_key", **ENTRY, known_hosts="c ssh-ed25519 CCCC\n\na ssh-ed25519 AAAA\nc ssh-ed25519 CCCC\n")
    assert node.run("get_ssh_known_hosts")["known_hosts"] == "a ssh-ed25519 AAAA\n# b\nc ssh-ed25519 CCCC\n"
    node.run("update_ssh_key", name="deploy", known_hosts="d ssh-ed25519 DDDD")
    assert node.run("get_ssh_known_hosts")["known_hosts"].endswith("\nd ssh-ed25519 DDDD\n")
    node.run("set_ssh_known_hosts", known_hosts="")
    assert node.run("get_ssh_known_hosts") == {"known_hosts": ""}
    assert (node.root / "ssh" / "known_hosts").stat().st_mode & 0o777 == 0o600


def test_what_is_there_and_what_is_not(node: OperationsNode) -> None:
    for operation in ("get_ssh_key", "delete_ssh_key"):
        assert refused(node, operation, name="deploy") == (404, "SSH key 'deploy' does not exist")
    assert refused(node, "update_ssh_key", name="deploy", host="x") == (404, "SSH key 'deploy' does not exist, use add_ssh_key")
    node.run("add_ssh_key", **ENTRY)
    assert refused(node, "add_ssh_key", **{**ENTRY, "key": OTHER_KEY}) == (409, "SSH key 'deploy' already exists, use update_ssh_key")
    assert refused(node, "add_ssh_key", **{**ENTRY, "name": "b"}) == (409, "The host 'shop.github.com' has the SSH key 'deploy' already")


NAME = "'name' can only contain alphanumeric, dash and underscores characters"


@pytest.mark.parametrize(
    ("operation", "fields", "message"),
    [
        ("add_ssh_key", {}, "'name' is required. 'key' is required. 'host' is required. 'hostname' is required"),
        ("add_ssh_key", {**ENTRY, "name": "../x"}, "'name' names cannot include backticks or forward slashes"),
        ("add_ssh_key", {**ENTRY, "name": ".."}, NAME),
        ("add_ssh_key", {**ENTRY, "name": "a\nHost *"}, "'name' names can only include printable ASCII characters"),
        ("add_ssh_key", {**ENTRY, "name": "a b"}, NAME),
        ("add_ssh_key", {**ENTRY, "name": "x" * 251}, "'name' length must be less than or equal to 250 characters long"),
        ("add_ssh_key", {**ENTRY, "key": "x"}, "'key' must be a private key in PEM form"),
        ("add_ssh_key", {**ENTRY, "key": KEY.replace("PRIVATE", "PUBLIC")}, "'key' must be a private key in PEM form"),
        ("add_ssh_key", {**ENTRY, "key": KEY.replace("END OPENSSH", "END")}, "'key' must be a private key in PEM form"),
        ("add_ssh_key", {**ENTRY, "key": KEY + "more"}, "'key' must be a private key in PEM form"),
        ("add_ssh_key", {**ENTRY, "key": KEY.replace("lines", "x\0y")}, "'key' must be a private key in PEM form"),
        (
            "add_ssh_key",
            {**ENTRY, "key": KEY.replace("lines", "x" * 20_000)},
            "'key' length must be less than or equal to 16384 characters long",
        ),
        ("add_ssh_key", {**ENTRY, "host": "a b"}, "'host' must be a host name"),
        ("add_ssh_key", {**ENTRY, "host": "*"}, "'host' must be a host name"),
        ("add_ssh_key", {**ENTRY, "host": "-oProxyCommand=x"}, "'host' must be a host name"),
        ("add_ssh_key", {**ENTRY, "hostname": "x\n    ProxyCommand sh"}, "'hostname' must be a host name"),
        ("add_ssh_key", {**ENTRY, "known_hosts": "a\0b"}, "'known_hosts' must be text"),
        ("add_ssh_key", {**ENTRY, "known_hosts": 5}, "'known_hosts' must be a string"),
        ("update_ssh_key", {"name": "deploy", "hostname": "x\ny"}, "'hostname' must be a host name"),
        ("get_ssh_key", {}, "'name' is required"),
        ("get_ssh_key", {"name": "../../keys/x"}, "'name' names cannot include backticks or forward slashes"),
        ("delete_ssh_key", {"name": "keys.json"}, NAME),
        ("set_ssh_known_hosts", {}, "'known_hosts' is required"),
        ("set_ssh_known_hosts", {"known_hosts": "\ud800"}, "'known_hosts' must be a well-formed Unicode string"),
        (
            "set_ssh_known_hosts",
            {"known_hosts": "x" * ((1 << 20) + 1)},
            "'known_hosts' length must be less than or equal to 1048576 characters long",
        ),
    ],
)
def test_faults(node: OperationsNode, operation: str, fields: dict[str, Any], message: str) -> None:
    assert refused(node, operation, **fields) == (400, message)


def test_damaged_and_unusable_files_are_said(node: OperationsNode) -> None:
    directory = node.root / "ssh"
    directory.mkdir()
    (directory / "keys.json").write_text("{")
    assert refused(node, "list_ssh_keys") == (500, "The list of SSH keys, ssh/keys.json, is damaged")
    (directory / "keys.json").write_text("[1]")
    assert node.run("list_ssh_keys") == []
    (directory / "keys.json").unlink()
    directory.rmdir()
    directory.write_text("in the way")
    with pytest.raises(Problem) as caught:
        node.run("add_ssh_key", **ENTRY)
    assert caught.value.status_code == 500
    assert caught.value.message.startswith("The SSH files could not be used: ")


@pytest.mark.parametrize("operation", ["install_node_modules", "audit_node_modules"])
def test_there_are_no_node_modules(node: OperationsNode, operation: str) -> None:
    assert refused(node, operation, projects=["x"]) == (501, "Dependencies are installed by deploy_component")


@pytest.mark.parametrize(
    "operation", ["set_secret", "grant_secret", "revoke_secret", "list_secrets", "delete_secret", "get_secrets_public_key"]
)
def test_there_are_no_secrets_yet(node: OperationsNode, operation: str) -> None:
    assert refused(node, operation, name="x", value="S3CRET") == (501, "The secrets store is not available")


def test_only_super_users(node: OperationsNode) -> None:
    user = node.user("ann", {"super_user": False})
    for name, row in by_name().items():
        if row.handler.__module__ == "svc.operations.components":
            with pytest.raises(Problem) as caught:
                node.send({"operation": name, **row.example}, user)
            assert caught.value.status_code == 403
