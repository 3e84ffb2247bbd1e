"""What a provider says of itself (OpenID Connect Discovery 1.0 §3 and §4, RFC 8414).

Nothing in it is believed that could lead requests, or the browser, to where the provider's operator would not send them: the issuer must be the one
that is configured, to the letter, and addresses are https ones; this machine's only if the issuer is on it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from svc.accounts.openid.settings import ProviderSettings, is_safe_address

WELL_KNOWN = "/.well-known/openid-configuration"

ALGORITHMS: Final = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA")
"""Of signatures that are accepted at all: those whose keys are public. Never `none`, nor HS256, for which whoever can check a token can make one."""

_REQUIRED_ALGORITHM = "RS256"  # of each provider (Core §15.1)
_BASIC, _POST, _NONE = "client_secret_basic", "client_secret_post", "none"
_MOST_VALUES = 200  # of a list that is looked at


@dataclass(frozen=True, slots=True)
class Metadata:
    """`algorithms`: of ALGORITHMS, those that the provider signs with. `authentication`: how the client shows its secret to the token endpoint, "none":
    it has none. `names_issuer`: answers to the browser have `iss` (RFC 9207)."""

    authorization: str
    token: str
    keys: str
    userinfo: str | None
    algorithms: tuple[str, ...]
    authentication: str
    names_issuer: bool


def metadata_address(issuer: str) -> str:
    """
    >>> metadata_address("https://id.example/realms/shop/")
    'https://id.example/realms/shop/.well-known/openid-configuration'
    """
    return issuer.removesuffix("/") + WELL_KNOWN


def read_metadata(document: Any, settings: ProviderSettings) -> Metadata:
    """The metadata of a decoded document. Raises ValueError with what is wrong in it, for the log and the answer."""
    if not isinstance(document, Mapping):
        raise ValueError("its description is no object")
    if document.get("issuer") != settings.issuer:
        raise ValueError("its description names another issuer than the one that is configured")
    local = settings.is_local
    addresses: dict[str, str] = {}
    for name in ("authorization_endpoint", "token_endpoint", "jwks_uri"):
        address = document.get(name)
        if not is_safe_address(address, local=local):
            raise ValueError(f"{name} in its description is missing, or is no address that may be used")
        assert isinstance(address, str)
        addresses[name] = address
    userinfo = document.get("userinfo_endpoint")
    if userinfo is not None and not is_safe_address(userinfo, local=local):
        raise ValueError("userinfo_endpoint in its description is no address that may be used")
    types = _words(document, "response_types_supported")
    if types is not None and "code" not in types:
        raise ValueError("it does not offer the code flow")
    methods = _words(document, "code_challenge_methods_supported")
    if methods is not None and "S256" not in methods:  # one that does not say ignores the challenge, at worst
        raise ValueError("it does not offer PKCE with S256")
    offered = _words(document, "id_token_signing_alg_values_supported") or [_REQUIRED_ALGORITHM]
    algorithms = tuple(name for name in ALGORITHMS if name in offered)
    if not algorithms:
        raise ValueError("it signs with no algorithm whose keys are public")
    return Metadata(
        authorization=addresses["authorization_endpoint"],
        token=addresses["token_endpoint"],
        keys=addresses["jwks_uri"],
        userinfo=userinfo,
        algorithms=algorithms,
        authentication=_authentication(_words(document, "token_endpoint_auth_methods_supported"), settings),
        names_issuer=document.get("authorization_response_iss_parameter_supported") is True,
    )


def _authentication(offered: list[str] | None, settings: ProviderSettings) -> str:
    if settings.client_secret is None:
        return _NONE
    if offered is None or _BASIC in offered:  # the default (Core §9)
        return _BASIC
    if _POST in offered:
        return _POST
    raise ValueError("it takes the secret of a client neither as Basic nor in the form")


def _words(document: Mapping[str, Any], name: str) -> list[str] | None:
    found = document.get(name)
    if found is None:
        return None
    if not isinstance(found, list):
        raise ValueError(f"{name} in its description is no list")
    return [word for word in found[:_MOST_VALUES] if isinstance(word, str)]
