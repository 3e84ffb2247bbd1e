"""Who may connect to this node's engine, and what it may do there: the engine asks this process for each connection (spec: replication-engine §2).

The request is a JWT that the engine has signed; it has the certificates as TLS has verified them. The answer is one of ours, with the rights of that
connection inside. Names and passwords that a client gives play no part: there are no users.

What a node may send has its own name in the subject, so none can speak for another. It may read the streams, but neither make nor change them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from cryptography import x509

from svc.cluster.identity import MAX_CHAIN, Certificate, NodeIdentity, Trust
from svc.cluster.names import token
from svc.cluster.signing import BadToken, SigningKey, read_claims

REQUESTS = "$SYS.REQ.USER.AUTH"  # the subject of the engine's requests
NODES_ACCOUNT = "NODES"  # of the engine: all that nodes and this process say to it
MAX_CHAINS = 8
SUBSCRIPTIONS_MAX = 1000  # of the connection of a node
_PEM_MAX = 1 << 16  # characters of a certificate

_STREAM_READING = (
    "$JS.API.STREAM.INFO.*",
    "$JS.API.STREAM.MSG.GET.*",
    "$JS.API.CONSUMER.CREATE.*.*",
    "$JS.API.CONSUMER.MSG.NEXT.*.*",
)


@dataclass(frozen=True, slots=True)
class AdmissionRequest:
    """`user`, `server`: keys of the engine, for the answer. `chains`: the certificates, empty on a plain port. `address`: from where, for the log."""

    user: str
    server: str
    address: str
    chains: tuple[tuple[Certificate, ...], ...]


@dataclass(frozen=True, slots=True)
class Rights:
    """Subjects, as the engine has patterns of them."""

    publish: tuple[str, ...]
    subscribe: tuple[str, ...]


def inbox_of(node: str) -> str:
    """Where answers for a node arrive: the start of the subjects."""
    return f"_INBOX_{token(node)}"


def sent_by(node: str, *rest: str) -> str:
    """What a node says to the one whose engine it is connected to; `rest`: of one word each, `>`: all."""
    return ".".join(("svc.from", token(node), *rest))


def sent_to(node: str, *rest: str) -> str:
    """What the owner of an engine says to one of the nodes that are connected to it."""
    return ".".join(("svc.to", token(node), *rest))


def sent_to_all(*rest: str) -> str:
    """What the owner of an engine says to all that are connected to it."""
    return ".".join(("svc.all", *rest))


def rights_of(node: str, *, may_read: bool = True) -> Rights:
    """Of a node that is connected to the engine of another one. `may_read`: the streams there.

    >>> rights_of("node-b").subscribe
    ('_INBOX_node-b.>', 'svc.to.node-b.>', 'svc.all.>')
    """
    return Rights(
        (*(_STREAM_READING if may_read else ()), sent_by(node, ">")), (f"{inbox_of(node)}.>", sent_to(node, ">"), sent_to_all(">"))
    )


def read_request(data: bytes, server: str) -> AdmissionRequest:
    """A request of the engine whose key is `server`. Raises BadToken for what is none, or of another one."""
    claims = read_claims(data)
    if claims["iss"] != server:
        raise BadToken("not signed by this node's engine")
    try:
        request: Mapping[str, Any] = claims["nats"]
        user, key = request["user_nkey"], request["server_id"]["id"]
        address = request.get("client_info", {}).get("host", "")
        tls = request.get("client_tls") or {}
        texts = tls.get("verified_chains") or []
        if not isinstance(user, str) or key != server or not isinstance(address, str):
            raise BadToken("it has not the fields of a request")
        chains = tuple(tuple(_read(text) for text in chain[:MAX_CHAIN]) for chain in texts[:MAX_CHAINS])
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        raise BadToken(f"it has not the fields of a request: {type(error).__name__}") from None
    return AdmissionRequest(user, server, address, chains)


def _read(text: str) -> Certificate:
    if len(text) > _PEM_MAX:
        raise ValueError
    return x509.load_pem_x509_certificate(text.encode())


def identify(request: AdmissionRequest, trust: Trust, now: float, *, plain: bool) -> NodeIdentity:
    """The node that wants to connect. `plain`: to a port without TLS. Raises NodeRefused."""
    return trust.identify_address(request.address) if plain else trust.identify(request.chains, now)


def admit(request: AdmissionRequest, identity: NodeIdentity, key: SigningKey, now: float, *, may_read: bool = True) -> bytes:
    """The answer that admits a node, for as long as its certificate is valid. `may_read`: the streams here."""
    rights = rights_of(identity.name, may_read=may_read)
    user: dict[str, Any] = {
        "sub": request.user,
        "aud": NODES_ACCOUNT,
        "name": identity.name,
        "nats": {
            "type": "user",
            "version": 2,
            "subs": SUBSCRIPTIONS_MAX,
            "data": -1,
            "payload": -1,
            "allowed_connection_types": ["STANDARD"],
            "pub": {"allow": rights.publish},
            "sub": {"allow": rights.subscribe},
        },
    }
    if identity.expires is not None:
        user["exp"] = int(identity.expires)
    return _answer(request, key, now, jwt=key.sign_claims(user, now))


def refuse(request: AdmissionRequest, reason: str, key: SigningKey, now: float) -> bytes:
    """The answer that refuses a client. `reason`: for the engine's log; the client sees nothing of it."""
    return _answer(request, key, now, error=reason)


def _answer(request: AdmissionRequest, key: SigningKey, now: float, **fields: str) -> bytes:
    claims = {"sub": request.user, "aud": request.server, "nats": {"type": "authorization_response", "version": 2, **fields}}
    return key.sign_claims(claims, now).encode()
