"""SSH keys for fetching packages (spec: operations §7)."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial
from typing import Any

from svc.errors import ServerError
from svc.operations.call import Call
from svc.operations.fields import REPLICATED, Field
from svc.operations.operation import NEVER_GRANTED, SUPER_USER, Operation
from svc.operations.ssh_files import SshFiles

MAX_KEY = 1 << 14  # characters of a private key
MAX_KNOWN_HOSTS = 1 << 20

_KEY_NAME = re.compile(r"[a-zA-Z0-9_-]+", re.ASCII)
_PRIVATE_KEY = re.compile(r"-----BEGIN ([A-Z0-9 ]*PRIVATE KEY)-----\n[\x20-\x7e\n]+\n-----END \1-----\n*", re.ASCII)
_HOST = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:-]{0,252}", re.ASCII)


async def _on_files(call: Call, work: Callable[[SshFiles], Any]) -> Any:
    try:
        return await call.on_helper(partial(work, SshFiles(call.node.config.root)))
    except OSError as error:
        raise ServerError(f"The SSH files could not be used: {error.strerror}") from error


def _key_text(text: str | None) -> str | None:
    return None if text is None else text.replace("\r\n", "\n").strip("\n") + "\n"


async def add_ssh_key(call: Call) -> Any:
    key = _key_text(call["key"])
    assert key is not None
    await _on_files(call, lambda files: files.add(call["name"], key, call["host"], call["hostname"], call["known_hosts"]))
    return f"Added ssh key: {call['name']}"


async def update_ssh_key(call: Call) -> Any:
    key = _key_text(call["key"])
    await _on_files(call, lambda files: files.update(call["name"], key, call["host"], call["hostname"], call["known_hosts"]))
    return f"Updated ssh key: {call['name']}"


async def get_ssh_key(call: Call) -> Any:
    return await _on_files(call, lambda files: files.get(call["name"]))


async def delete_ssh_key(call: Call) -> Any:
    await _on_files(call, lambda files: files.delete(call["name"]))
    return f"Deleted ssh key: {call['name']}"


async def list_ssh_keys(call: Call) -> Any:
    return await _on_files(call, SshFiles.names)


async def set_ssh_known_hosts(call: Call) -> Any:
    await _on_files(call, lambda files: files.set_known_hosts(call["known_hosts"]))
    return "Known hosts successfully set"


async def get_ssh_known_hosts(call: Call) -> Any:
    return {"known_hosts": await _on_files(call, SshFiles.known_hosts)}


# --- rows ---------------------------------------------------------------------------------------------------------------------------------


def _key_name(value: Any, field: Field) -> str | None:
    return None if _KEY_NAME.fullmatch(value) else "can only contain alphanumeric, dash and underscores characters"


def _private_key(value: Any, field: Field) -> str | None:
    if len(value) > MAX_KEY:
        return f"length must be less than or equal to {MAX_KEY} characters long"
    return None if _PRIVATE_KEY.fullmatch(value.replace("\r\n", "\n").lstrip("\n")) else "must be a private key in PEM form"


def _host(value: Any, field: Field) -> str | None:
    return None if _HOST.fullmatch(value) else "must be a host name"


def _known_hosts(value: Any, field: Field) -> str | None:
    if len(value) > MAX_KNOWN_HOSTS:
        return f"length must be less than or equal to {MAX_KNOWN_HOSTS} characters long"
    is_text = all(line.isprintable() for line in value.replace("\t", " ").replace("\r\n", "\n").split("\n"))
    return None if is_text else "must be text"


_NAME = Field("name", "name", "Name of the key: letters, digits, `-`, `_`.", required=True, check=_key_name)
_KEY = Field("key", "string", "The private key, PEM, without a passphrase; ed25519 is a good choice.", secret=True, check=_private_key)
_HOST_FIELD = Field("host", "string", "The name that packages use in their addresses.", check=_host)
_HOSTNAME = Field("hostname", "string", "The real name of that host.", check=_host)
_MORE_HOSTS = Field("known_hosts", "any string", "Lines to be added to the known hosts.", check=_known_hosts)

_EXAMPLE = {
    "name": "deploy",
    "key": "-----BEGIN OPENSSH PRIVATE KEY-----\n...\n-----END OPENSSH PRIVATE KEY-----\n",
    "host": "shop.github.com",
    "hostname": "github.com",
}


OPERATIONS: tuple[Operation, ...] = (
    Operation(
        name="add_ssh_key",
        category="components",
        summary="Keep an SSH key for fetching packages.",
        permission=NEVER_GRANTED,
        handler=add_ssh_key,
        fields=(_NAME, _KEY.but(required=True), _HOST_FIELD.but(required=True), _HOSTNAME.but(required=True), _MORE_HOSTS, REPLICATED),
        returns="A message.",
        notes=(
            "A package is then fetched from `git+ssh://git@<host>/...` with this key. Files are in `ssh/` below the root directory, readable for the"
            " server's user only, with a configuration for ssh made from them. 409 if the key exists, or if the host has one."
        ),
        example=_EXAMPLE,
        example_answer={"message": "Added ssh key: deploy"},
    ),
    Operation(
        name="update_ssh_key",
        category="components",
        summary="Change an SSH key.",
        permission=NEVER_GRANTED,
        handler=update_ssh_key,
        fields=(_NAME, _KEY, _HOST_FIELD, _HOSTNAME, _MORE_HOSTS, REPLICATED),
        returns="A message.",
        notes="Fields that are not given stay unchanged. 404 if the key does not exist.",
        example={"name": "deploy", "key": _EXAMPLE["key"]},
        example_answer={"message": "Updated ssh key: deploy"},
    ),
    Operation(
        name="get_ssh_key",
        category="components",
        summary="What an SSH key is for.",
        permission=SUPER_USER,
        handler=get_ssh_key,
        fields=(_NAME,),
        returns="`name`, `host`, `hostname`; never the key itself.",
        example={"name": "deploy"},
        example_answer={"name": "deploy", "host": "shop.github.com", "hostname": "github.com"},
    ),
    Operation(
        name="delete_ssh_key",
        category="components",
        summary="Remove an SSH key.",
        permission=SUPER_USER,
        handler=delete_ssh_key,
        fields=(_NAME, REPLICATED),
        returns="A message.",
        notes="404 if the key does not exist.",
        example={"name": "deploy"},
        example_answer={"message": "Deleted ssh key: deploy"},
    ),
    Operation(
        name="list_ssh_keys",
        category="components",
        summary="The names of all SSH keys.",
        permission=SUPER_USER,
        handler=list_ssh_keys,
        returns="A list of `{name}`.",
        example={},
        example_answer=[{"name": "deploy"}],
    ),
    Operation(
        name="set_ssh_known_hosts",
        category="components",
        summary="Replace the known hosts.",
        permission=NEVER_GRANTED,
        handler=set_ssh_known_hosts,
        fields=(Field("known_hosts", "any string", "The whole file, as of ssh.", required=True, check=_known_hosts), REPLICATED),
        returns="A message.",
        example={"known_hosts": "github.com ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIOMqqnkVzrm0SdG6UOoqKLsabgH5C9okWi0dh2l9GKJl\n"},
        example_answer={"message": "Known hosts successfully set"},
    ),
    Operation(
        name="get_ssh_known_hosts",
        category="components",
        summary="The known hosts.",
        permission=SUPER_USER,
        handler=get_ssh_known_hosts,
        returns="`known_hosts`: a string, empty if none was set.",
        example={},
        example_answer={"known_hosts": "github.com ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIOMqqnkVzrm0SdG6UOoqKLsabgH5C9okWi0dh2l9GKJl\n"},
    ),
)
