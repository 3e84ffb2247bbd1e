"""What the parent and an instance tell each other."""

from __future__ import annotations

import msgspec


class OpenPort(msgspec.Struct, tag=True, frozen=True):
    """To the parent: listening sockets of a port at these addresses. Answered by an `Opened` for each address, or one `Refused`.

    `name`: what the port is for. With `port` 0 the instances share the first, the second ... that they open under this name.
    """

    name: str
    port: int
    hosts: tuple[str, ...]


class OpenPath(msgspec.Struct, tag=True, frozen=True):
    """To the parent: the listening socket at this path. Answered by `Opened` or `Refused`."""

    path: str


class Opened(msgspec.Struct, tag=True, frozen=True):
    """The sockets at one address come with it: first so many that are its `own`, then those of its siblings. `is_last`: of the answer."""

    own: int
    is_last: bool


class Refused(msgspec.Struct, tag=True, frozen=True):
    """It cannot be opened. `number`: the error number of the operating system. `where`: the address."""

    number: int
    text: str
    where: str


class Release(msgspec.Struct, tag=True, frozen=True):
    """To the parent: this instance does not listen on the port any more, or at the path."""

    port: int
    path: str


class Ready(msgspec.Struct, tag=True, frozen=True):
    """To the parent: it serves. `errors`: in its applications. `number`: that it has among the instances of the data directory."""

    errors: int
    number: int


class Failed(msgspec.Struct, tag=True, frozen=True):
    """To the parent: it ends, because it cannot serve. `text`: why."""

    text: str


class Restart(msgspec.Struct, tag=True, frozen=True):
    """To the parent: replace all instances by new ones, with the program and the configuration as they are now."""


class NotRestarted(msgspec.Struct, tag=True, frozen=True):
    """To the instances: a restart has failed, and they go on. `reason`: a sentence; None: another one begins."""

    reason: str | None


class Retire(msgspec.Struct, tag=True, frozen=True):
    """To an instance: another has taken its place. It ends when its connections have; those that are idle go over the socket that comes with this."""


class Succeed(msgspec.Struct, tag=True, frozen=True):
    """To a new instance: over the socket that comes with this it gets the idle connections of the one whose place it has taken."""


class Connection(msgspec.Struct, tag=True, frozen=True):
    """From an instance to the one that takes its place: a connection that waits for its next request comes with it.

    `section`, `ports`: of the server to which it belongs. `scheme`, `peer`: as it was accepted.
    """

    section: str
    ports: tuple[int, ...]
    scheme: str
    peer: str


Message = OpenPort | OpenPath | Opened | Refused | Release | Ready | Failed | Restart | NotRestarted | Retire | Succeed | Connection
