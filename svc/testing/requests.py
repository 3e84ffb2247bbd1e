"""Requests of a test: what is sent, over which connection, and the answer."""

from __future__ import annotations

import json as json_module
from base64 import b64encode
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from functools import partial
from math import inf
from typing import Any, Final, TypedDict, Unpack
from urllib.parse import quote, urlencode

from svc.apps.roles_file import apply_roles, role_of
from svc.auth.users import User
from svc.errors import Problem
from svc.operations.operation_lists import known_entries
from svc.testing.answer import Answer
from svc.testing.instance import ENDED, FAR, Instance
from svc.testing.prepared import SUPER_USER, text_of
from svc.testing.tracebacks import is_hidden
from svc.testing.wire import AnswerReader, MemorySocket


@dataclass(slots=True)
class Cookie:
    value: str
    path: str = "/"
    expires: float = inf  # seconds since the epoch


class Cookies(dict[str, Cookie]):
    """By name. `now`: seconds since the epoch."""

    def __init__(self, now: Callable[[], float]) -> None:
        super().__init__()
        self._now = now

    def receive(self, fields: Sequence[tuple[str, str]], path: str = "/") -> None:
        """Take over the `Set-Cookie` fields of an answer to a request for `path`."""
        for field, value in fields:
            if field.lower() == "set-cookie":
                self._set(value, path.partition("?")[0])

    def _set(self, text: str, path: str) -> None:
        first, *attributes = text.split(";")
        name, _, value = first.strip().partition("=")
        cookie = Cookie(value, path[: path.rfind("/")] or "/")  # the default (§5.1.4)
        given = {key.strip().lower(): stated.strip() for key, _, stated in (each.partition("=") for each in attributes)}
        if given.get("path", "").startswith("/"):
            cookie.path = given["path"]
        try:
            if "max-age" in given:
                cookie.expires = self._now() + int(given["max-age"])
            elif "expires" in given:
                cookie.expires = parsedate_to_datetime(given["expires"]).timestamp()
        except (ValueError, OverflowError):
            pass  # an attribute that cannot be read is ignored (§5.2)
        if cookie.expires <= self._now():
            if name in self and self[name].path == cookie.path:
                del self[name]
        else:
            self[name] = cookie

    def header(self, path: str) -> str:
        """The value of `Cookie` for a request; "" for none."""
        path = path.partition("?")[0]
        sent = [f"{name}={each.value}" for name, each in self.items() if each.expires > self._now() and _matches(path, each.path)]
        return "; ".join(sent)


def _matches(path: str, scope: str) -> bool:
    """
    >>> _matches("/shop/1", "/shop"), _matches("/shopping", "/shop"), _matches("/x", "/")
    (True, False, True)
    """
    return path == scope or path.startswith(scope if scope.endswith("/") else f"{scope}/")


__tracebackhide__ = is_hidden

PEER = "127.0.0.1"
CREDENTIAL_SECONDS = 30.0
_IN_TARGET: Final = "/?#[]@!$&'()*+,;=:%-._~<>|\\^`{}\""
_MISSING: Final = object()

Caller = str | Mapping[str, Any] | None


class CallOptions(TypedDict, total=False):
    """Whose request it is: `user` None is an anonymous caller, a name that of a user, a dict one with a role; default: the super user."""

    headers: Mapping[str, str] | None
    user: Caller


class RequestOptions(CallOptions, total=False):
    """`data`: bytes or text for the body, or a dict for a form. `seconds`: of the test's clock, in which the answer must come."""

    data: Any
    seconds: float


"""Who makes a request: None is anonymous, a string the name of a user. A mapping is a user who is made for it: {"role": "gardener"} has that role,
any other mapping is the description of a role as `roles.yaml` has it."""


class Wire:
    """One request on a connection of its own."""

    def __init__(self, instance: Instance, method: str, target: str, on_data: Callable[[bytes], None] | None = None) -> None:
        self.instance = instance
        self.reader = AnswerReader(instance.loop, method, on_data)
        self.sock = MemorySocket(instance.loop)
        self.sock.client = self.reader
        if instance.is_closed:
            raise RuntimeError(ENDED)
        instance.sockets.add(self.sock)
        instance.server.application_port.connections.accept(self.sock, PEER)  # type: ignore[arg-type]  # it has the interface of one

    def send(self, data: bytes) -> None:
        self.instance.loop.deliver(self.sock, data)

    def hang_up(self) -> None:
        self.instance.sockets.discard(self.sock)
        if not self.instance.is_closed:
            self.instance.loop.hang_up(self.sock)


class PendingRequest:
    """A request under way. `await` it in an `async` test, or ask for its `answer()`."""

    def __init__(self, wire: Wire, shown: str) -> None:
        self._wire = wire
        self._shown = shown
        self._answer: Answer | None = None

    @property
    def is_answered(self) -> bool:
        return self._wire.reader.end.done()

    def answer(self, *, seconds: float = FAR) -> Answer:
        """Wait for it, for so many `seconds` of the test's clock. Raises NotEnded."""
        if self._answer is None:
            self._answer = self._wait(seconds)
        return self._answer

    def _wait(self, seconds: float) -> Answer:
        wire = self._wire
        instance, reader = wire.instance, wire.reader
        try:
            instance.wait_for(reader.head, f"the answer to {self._shown}", seconds=seconds)
            status, fields = reader.head.result()
            if any(name.lower() == "content-type" and value.startswith("text/event-stream") for name, value in fields):
                instance.rest()
                if not reader.end.done():
                    raise AssertionError(f"the answer to {self._shown} is an event stream, which does not end: follow it with events()")
            instance.wait_for(reader.end, f"the end of the answer to {self._shown}", seconds=seconds)
            content = reader.end.result()
        except ConnectionError as error:
            raise AssertionError(f"{self._shown}: {error}") from None
        finally:
            wire.hang_up()
            instance.rest()
        return Answer(self._shown, status, fields, content, reader.early)

    def __await__(self) -> Any:
        return self.answer()
        yield

    def cancel(self) -> None:
        """The client goes away."""
        self._wire.hang_up()
        self._wire.instance.rest()


class Callers:
    """The users that requests are made by, and their credentials."""

    def __init__(self, instance: Instance) -> None:
        self._instance = instance
        self._made: dict[str, str] = {}  # text of a description -> name of the user

    def authorization(self, caller: Caller) -> str | None:
        """The value of `Authorization`; it is verified already. Raises LookupError for an unknown user, ValueError for an invalid description of a role."""
        name = self.username(caller)
        if name is None:
            return None
        server = self._instance.server
        user = server.accounts.directory.get_user(name)
        if user is None:
            raise LookupError(f"there is no user {name!r}: add one with operation('add_user', ...), or describe a role in a dict")
        value = f"Basic {b64encode(f'{name}:'.encode()).decode()}"
        if user.active:
            self._verify(value, user)
        return value

    def username(self, caller: Caller) -> str | None:
        """The name of the user; one of a description is made."""
        return caller if caller is None or isinstance(caller, str) else self._user_of(caller)

    def _verify(self, value: str, user: User) -> None:
        verifier = self._instance.server.accounts.verifier
        verifier.remember(verifier.digest(value), user, None, CREDENTIAL_SECONDS)

    def _user_of(self, description: Mapping[str, Any]) -> str:
        text = text_of(description)
        name = self._made.get(text)
        if name is None:
            name = f"test_user_{len(self._made) + 1}"
            server = self._instance.server
            role = description.get("role") if len(description) == 1 else None
            if not isinstance(role, str):
                made, role = role_of(name, dict(description)), name
                faults = [made.fault] if made.fault else apply_roles([made], server.store, known_entries())
                if faults:
                    raise ValueError(f"the description of a role is not valid: {'; '.join(faults)}")
            fields = {"operation": "add_user", "username": name, "password": name, "role": role, "active": True}
            try:
                self._instance.run(server.operations_interface.operations.perform(fields))
            except Problem as problem:
                raise LookupError(f"there is no user with the role {role!r}: {problem.message}") from None
            self._made[text] = name
        return name


class Requests:
    """Makes requests as one user. Each is sent over a connection of its own through the whole server, and answered as on the network.

    `cookies`: that answers have set; they are sent as by a browser.
    """

    def __init__(self, instance: Instance, callers: Callers, user: Caller = SUPER_USER) -> None:
        self._instance = instance
        self._callers = callers
        self._user = user
        self.cookies = Cookies(instance.clock.wall)

    def as_user(self, user: Caller) -> Requests:
        """The same application for another user, with cookies of its own. `user`: see `request`."""
        return Requests(self._instance, self._callers, user)

    # --- verbs -----------------------------------------------------------------------------------------------------------------------

    def get(self, path: str, **options: Unpack[RequestOptions]) -> Answer:
        return self.request("GET", path, **options)

    def head(self, path: str, **options: Unpack[RequestOptions]) -> Answer:
        return self.request("HEAD", path, **options)

    def post(self, path: str, json: Any = _MISSING, **options: Unpack[RequestOptions]) -> Answer:
        return self.request("POST", path, json, **options)

    def put(self, path: str, json: Any = _MISSING, **options: Unpack[RequestOptions]) -> Answer:
        return self.request("PUT", path, json, **options)

    def patch(self, path: str, json: Any = _MISSING, **options: Unpack[RequestOptions]) -> Answer:
        return self.request("PATCH", path, json, **options)

    def delete(self, path: str, **options: Unpack[RequestOptions]) -> Answer:
        return self.request("DELETE", path, **options)

    def query(self, path: str, json: Any = _MISSING, **options: Unpack[RequestOptions]) -> Answer:
        return self.request("QUERY", path, json, **options)

    def options(self, path: str, **options: Unpack[RequestOptions]) -> Answer:
        return self.request("OPTIONS", path, **options)

    def request(
        self, method: str, path: str, json: Any = _MISSING, *, data: Any = None, seconds: float = FAR, **options: Unpack[CallOptions]
    ) -> Answer:
        """Make a request, `method` at `path`, and wait for its answer, for so many `seconds` of the test's clock. `json`: a value for the body. `data`:
        bytes or text for the body, or a dict for a form. Options: `headers`, a dict; `user`: None is an anonymous caller, a name that of a user, a dict one
        with a role (`Caller`); default: the super user."""
        return self.send(method, path, json, data=data, **options).answer(seconds=seconds)

    def send(
        self,
        method: str,
        path: str,
        json: Any = _MISSING,
        *,
        data: Any = None,
        headers: Mapping[str, str] | None = None,
        user: Any = _MISSING,
    ) -> PendingRequest:
        """Begin a request, `method` at `path`: several may be under way. `json`, `data`, `headers`, `user`: see `request`."""
        wire = self._wire(method, path, json, data, headers, user)
        return PendingRequest(wire, f"{method} {path}")

    def _wire(
        self,
        method: str,
        path: str,
        json: Any = _MISSING,
        data: Any = None,
        headers: Mapping[str, str] | None = None,
        user: Any = _MISSING,
        on_data: Callable[[bytes], None] | None = None,
    ) -> Wire:
        self._instance.require_open()
        if not path.startswith("/"):
            raise ValueError(f"a path begins with /: {path!r}")
        fields = {"Host": "localhost"}
        body = b""
        if json is not _MISSING:
            if data is not None:
                raise TypeError("give json or data, not both")
            body = json_module.dumps(json).encode()
            fields["Content-Type"] = "application/json"
        elif isinstance(data, Mapping):
            body = urlencode(data, doseq=True).encode()
            fields["Content-Type"] = "application/x-www-form-urlencoded"
        elif data is not None:
            body = data.encode() if isinstance(data, str) else bytes(data)
        given = dict(headers or {})
        names = {name.lower() for name in given}
        if user is _MISSING:
            user = None if "authorization" in names else self._user
        elif user is not None and "authorization" in names:
            raise TypeError("give a user, or the header Authorization, not both")
        authorization = self._callers.authorization(user)
        if authorization is not None:
            fields["Authorization"] = authorization
        if body or method in ("POST", "PUT", "PATCH", "QUERY"):
            fields["Content-Length"] = str(len(body))
        if cookies := self.cookies.header(path):
            fields["Cookie"] = cookies
        fields = {name: value for name, value in fields.items() if name.lower() not in names} | given
        wire = Wire(self._instance, method, path, on_data)
        wire.reader.on_head = partial(self.cookies.receive, path=path)
        wire.send(_head(method, path, fields) + body)
        return wire


def _head(method: str, path: str, fields: Mapping[str, str]) -> bytes:
    """Raises ValueError for what cannot be sent."""
    lines = [f"{method} {quote(path, safe=_IN_TARGET)} HTTP/1.1", *(f"{name}: {value}" for name, value in fields.items())]
    for line in lines:
        if "\r" in line or "\n" in line or "\0" in line:
            raise ValueError(f"a header cannot have a line break: {line!r}")
    return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1")
