"""Who a request is from (contract: http §11.1, security §1).

Asked once per request, so the usual answer is a look into the header block's memo: blocks repeat byte for byte, and with them the user.
The memo holds (generation, expiry, user): fresh while no user or role has changed and the verified credential has not run out.
"""

from __future__ import annotations

from base64 import b64decode
from functools import lru_cache
from ipaddress import IPv6Address, ip_address

from svc.auth.passwords import DEFAULT_HASH_FUNCTION
from svc.auth.users import User, UserDirectory
from svc.auth.verifier import Pending, Verifier, login_failed
from svc.clock import SYSTEM_CLOCK, Clock
from svc.errors import Problem
from svc.messages import HeaderBlock, Request

__all__ = ["Identifier", "Pending", "challenge_headers"]

_MEMO = "auth.user"
_LOCAL_MEMO = "auth.local"
_FORWARDED = ("x-forwarded-for", "forwarded", "via")
_CHALLENGE = (("WWW-Authenticate", 'Basic realm="svc", Bearer'),)


class Identifier:
    """Identifies the requests of one server (a port may admit local callers without credentials, another not)."""

    def __init__(
        self,
        directory: UserDirectory,
        *,
        cache_ttl: float = 30.0,
        clock: Clock = SYSTEM_CLOCK,
        authorize_local: bool = False,
        host_name: str = "localhost",
        hash_function: str = DEFAULT_HASH_FUNCTION,
        failure_delay: bool = True,
        verifier: Verifier | None = None,
    ) -> None:
        """`cache_ttl` in seconds. `authorize_local`: application ports only, never the operations port. `host_name`: of this node.

        `verifier`: share another identifier's verified credentials; the settings about passwords are then its own.
        """
        self._directory = directory
        self._now = clock.monotonic
        self._authorize_local = authorize_local
        self._local_names = frozenset({"localhost", host_name.lower()})
        self.verifier = verifier or Verifier(
            directory, cache_ttl=cache_ttl, clock=clock, hash_function=hash_function, failure_delay=failure_delay
        )

    def identify(self, request: Request) -> User | Pending | None:
        """The user; None for an anonymous caller; a Pending where a password has to be verified first.

        Raises Problem: 401 for credentials that are there and wrong, 503 with too many verifications outstanding.
        """
        block = request.block
        memo = block.memo.get(_MEMO)
        if memo is not None and memo[0] == self._directory.generation and memo[1] > self._now():
            return memo[2]  # type: ignore[no-any-return]
        authorization = block.fields.get("authorization")
        if authorization is not None:
            who = self._by_header(authorization, request)
            if who is not None:
                return who
        if self._authorize_local and is_loopback(request.peer) and self._is_local(block):
            return self._directory.first_super_user()
        return None

    def _by_header(self, authorization: str, request: Request) -> User | Pending | None:
        """None: the header holds no credentials that concern us."""
        scheme, _, rest = authorization.partition(" ")
        scheme = scheme.lower()
        if scheme != "basic":
            if scheme == "bearer":
                raise Problem("invalid token", 401)
            return None
        verifier = self.verifier
        digest = verifier.digest(authorization)
        verified = verifier.known(digest)
        if verified is not None:
            request.block.memo[_MEMO] = (verified.generation, verified.expires, verified.user)
            return verified.user
        username, password = decode_basic(rest)
        if not username and not password:
            return None
        return verifier.begin(digest, username, password, request.peer)

    def _is_local(self, block: HeaderBlock) -> bool:
        """Nothing in the header says that a proxy, or a page from elsewhere, speaks here in the name of a local program.

        A page from elsewhere shows by its `Origin`. Where it sends none (a plain GET), `Host` has to be a name of this machine: else a foreign
        name that is made to resolve to 127.0.0.1 would do (DNS rebinding).
        """
        local: bool | None = block.memo.get(_LOCAL_MEMO)
        if local is None:
            fields = block.fields
            host, origin = host_name(fields.get("host", "")), fields.get("origin")
            local = (
                not any(name in fields for name in _FORWARDED)
                and (host == "" or host in self._local_names or host.endswith(".localhost") or is_loopback(host))
                and (origin is None or host_name(origin.partition("://")[2]) == host)
            )
            block.memo[_LOCAL_MEMO] = local
        return local


def decode_basic(text: str) -> tuple[str, str]:
    """User name and password of a Basic credential (RFC 7617). Raises Problem 401 for what is none.

    >>> decode_basic("YW5uOnMzY3JldDo=")
    ('ann', 's3cret:')
    """
    try:
        username, colon, password = b64decode(text.strip(), validate=True).decode().partition(":")
    except ValueError:  # also of base64 and of UTF-8
        raise login_failed() from None
    if not colon:
        raise login_failed()
    return username, password


@lru_cache(256)
def is_loopback(address: str) -> bool:
    """127.0.0.0/8, ::1, and both as IPv4-mapped address.

    >>> is_loopback("::ffff:127.0.0.1"), is_loopback("10.0.0.1"), is_loopback("")
    (True, False, False)
    """
    try:
        parsed = ip_address(address)
    except ValueError:
        return False
    if isinstance(parsed, IPv6Address) and parsed.ipv4_mapped is not None:
        parsed = parsed.ipv4_mapped
    return parsed.is_loopback


def host_name(host: str) -> str:
    """The name or address in `name[:port]`, in lower case, without brackets.

    >>> host_name("[::1]:9926"), host_name("Localhost:80"), host_name("127.0.0.1")
    ('::1', 'localhost', '127.0.0.1')
    """
    if host.startswith("["):
        return host[1:].partition("]")[0].lower()
    return host.partition(":")[0].rstrip(".").lower()


def challenge_headers(request: Request) -> tuple[tuple[str, str], ...]:
    """`WWW-Authenticate` for a 401 (http §11.1). None for a script that says it is one: the browser would ask its user instead."""
    return () if "x-requested-with" in request.block.fields else _CHALLENGE
