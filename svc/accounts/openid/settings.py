"""`accounts.providers` of an application's config.yaml (spec: rows §2.6).

providers:
  - name: example                       # in addresses: /login/example
    label: Example                      # of the button; else the name
    issuer: https://id.example
    clientId: shop
    clientSecret: {env: EXAMPLE_SECRET} # or a text; none for a public client
    scopes: [openid, email, profile]
    role: member                        # of accounts that are made; else that of `accounts`
    claims: {email: email, name: name}  # attribute of the account's record: claim
    linkByEmail: false                  # else that of `accounts`
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import urlsplit

from svc.config.origins import hint, nearest

LOGIN_PREFIX = "/login/"
CALLBACK = "/callback"
LOGINS_PATH = "/accounts/me/logins"
"""Where members see the logins that lead to their account."""

_NAME = re.compile(r"[a-z0-9](?:[a-z0-9-]{0,38}[a-z0-9])?")
_SCOPE = re.compile(r"[!#-\[\]-~]{1,100}")  # RFC 6749 §3.3
_OPENID = "openid"
_DEFAULT_SCOPES: Final = (_OPENID, "email", "profile")
_DEFAULT_CLAIMS: Final = {"email": "email"}
_OPTIONS: Final = ("name", "label", "issuer", "clientId", "clientSecret", "scopes", "role", "claims", "linkByEmail")
_KNOWN_OPTIONS = f"; there is {', '.join(_OPTIONS)}"
_LONGEST_TEXT = 1000  # characters
_LONGEST_LABEL = 60
MOST_PROVIDERS = 20
_MOST_CLAIMS = 50
_LOOPBACK: Final = frozenset(("localhost", "127.0.0.1", "::1"))


@dataclass(frozen=True, slots=True)
class ProviderSettings:
    """`claims`: attribute of the account's record -> name of a claim. `role` None: that of `accounts`. `client_secret` None: a public client."""

    name: str
    issuer: str
    client_id: str
    client_secret: str | None = field(default=None, repr=False)
    label: str = ""
    scopes: tuple[str, ...] = _DEFAULT_SCOPES
    role: str | None = None
    claims: Mapping[str, str] = field(default_factory=lambda: dict(_DEFAULT_CLAIMS))
    link_by_email: bool = False

    @property
    def shown_name(self) -> str:
        return self.label or self.name

    @property
    def login_path(self) -> str:
        return LOGIN_PREFIX + self.name

    @property
    def callback_path(self) -> str:
        return LOGIN_PREFIX + self.name + CALLBACK

    @property
    def is_local(self) -> bool:
        """Whether the provider is a program on this machine, which need not speak TLS."""
        return is_local_address(self.issuer)


def read_providers(
    given: Any, environ: Mapping[str, str] = os.environ, *, link_by_email: bool = False
) -> tuple[tuple[ProviderSettings, ...], list[str]]:
    """The providers of a list in config.yaml, and what is wrong with it, a sentence each. A provider with a fault is not among them. `link_by_email`: of
    those that do not say it themselves."""
    if given is None:
        return (), []
    if not isinstance(given, list):
        return (), ["accounts.providers must be a list of providers, each with name, issuer and clientId"]
    if len(given) > MOST_PROVIDERS:
        return (), [f"accounts.providers has {len(given)} providers; at most {MOST_PROVIDERS} are possible"]
    found: list[ProviderSettings] = []
    faults: list[str] = []
    for number, entry in enumerate(given, 1):
        own: list[str] = []
        provider = _read_provider(entry, own, environ, link_by_email)
        name = entry.get("name") if isinstance(entry, Mapping) else None
        where = f"accounts.providers[{name if isinstance(name, str) and _NAME.fullmatch(name) else number}]"
        if provider is not None and not own and any(provider.name == other.name for other in found):
            own.append(f"another provider has the name '{provider.name}' too: each needs one of its own")
        faults += [f"{where}: {fault}" for fault in own]
        if provider is not None and not own:
            found.append(provider)
    return tuple(found), faults


def _read_provider(entry: Any, faults: list[str], environ: Mapping[str, str], link_by_email: bool) -> ProviderSettings | None:
    if not isinstance(entry, Mapping):
        faults.append("must be a mapping with name, issuer and clientId")
        return None
    faults += [
        f"'{key}' is not an option of a provider{hint(nearest(str(key), _OPTIONS)) or _KNOWN_OPTIONS}"
        for key in entry
        if key not in _OPTIONS
    ]
    name = _text(entry, "name", faults)
    if name is not None and not _NAME.fullmatch(name):
        faults.append("name must be of lower-case letters, digits and inner '-', at most 40: it is part of an address")
    issuer = _text(entry, "issuer", faults)
    if issuer is not None and (fault := issuer_fault(issuer)):
        faults.append(fault)
    client_id = _text(entry, "clientId", faults)
    secret = _secret(entry.get("clientSecret"), faults, environ)
    label = entry.get("label", "")
    if not isinstance(label, str) or len(label) > _LONGEST_LABEL or not (label.isprintable()):
        faults.append(f"label must be a text of at most {_LONGEST_LABEL} characters")
        label = ""
    role = entry.get("role")
    if role is not None and (not isinstance(role, str) or not role):
        faults.append("role must be the name of a role")
    link = entry.get("linkByEmail", link_by_email)
    if not isinstance(link, bool):
        faults.append("linkByEmail must be true or false")
    scopes, claims = _scopes(entry.get("scopes"), faults), _claims(entry.get("claims"), faults)
    if faults or name is None or issuer is None or client_id is None:
        return None
    return ProviderSettings(name, issuer, client_id, secret, label, scopes, role, claims, link)


def _text(entry: Mapping[Any, Any], key: str, faults: list[str]) -> str | None:
    value = entry.get(key)
    if value is None:
        faults.append(f"{key} is missing")
    elif isinstance(value, str) and 0 < len(value) <= _LONGEST_TEXT and value.isprintable():
        return value
    else:
        faults.append(f"{key} must be a text{', in quotation marks' if isinstance(value, int | float) else ''}")
    return None


def _secret(value: Any, faults: list[str], environ: Mapping[str, str]) -> str | None:
    """A text, or `{env: NAME}`: the variable of the environment that has it."""
    if isinstance(value, Mapping) and set(value) == {"env"} and isinstance(value["env"], str):
        found = environ.get(value["env"])
        if not found:
            faults.append(
                f"clientSecret: there is no variable {value['env']} in the environment; set it, or load a file of variables with loadEnv"
            )
        return found or None
    if value is not None and (not isinstance(value, str) or not value or len(value) > _LONGEST_TEXT):
        faults.append("clientSecret must be a text, or {env: NAME} with the variable of the environment that has it")
        return None
    return value


def _scopes(value: Any, faults: list[str]) -> tuple[str, ...]:
    if value is None:
        return _DEFAULT_SCOPES
    words = value.split() if isinstance(value, str) else value
    if (
        not isinstance(words, list)
        or len(words) > _MOST_CLAIMS
        or not all(isinstance(word, str) and _SCOPE.fullmatch(word) for word in words)
    ):
        faults.append("scopes must be a list such as [openid, email, profile]")
        return _DEFAULT_SCOPES
    return tuple(dict.fromkeys((_OPENID, *words)))


def _claims(value: Any, faults: list[str]) -> Mapping[str, str]:
    if value is None:
        return dict(_DEFAULT_CLAIMS)
    if (
        not isinstance(value, Mapping)
        or len(value) > _MOST_CLAIMS
        or not all(isinstance(part, str) and 0 < len(part) <= _LONGEST_TEXT for pair in value.items() for part in pair)
    ):
        faults.append("claims must be a mapping of attributes to claims, such as {email: email, name: name}")
        return dict(_DEFAULT_CLAIMS)
    return dict(value)


def claim_faults(providers: Sequence[ProviderSettings], attributes: Sequence[str], type_name: str) -> list[str]:
    """What is wrong with `claims`. `attributes`: of the type, those that can be set, besides `username` and `email`."""
    return [
        f"accounts.providers[{provider.name}]: claims: {type_name} has no attribute {name} that can be set{hint(nearest(name, attributes))}"
        for provider in providers
        for name in provider.claims
        if name not in attributes and name not in ("username", "email")
    ]


# --- addresses -----------------------------------------------------------------------------------------------------------------------------


def issuer_fault(issuer: str) -> str:
    """What is wrong with the address of an issuer (OpenID Connect Discovery §2); "" if nothing is.

    >>> issuer_fault("https://id.example/realms/shop"), issuer_fault("http://localhost:4000")
    ('', '')
    >>> issuer_fault("http://id.example")
    'issuer must be an https address without query, as the provider names it; http is for providers on this machine only'
    """
    try:
        parts = urlsplit(issuer)
        parts.port  # noqa: B018 - raises ValueError for one that is none
    except ValueError:
        return f"issuer is not an address: {issuer[:100]!r}"
    if "?" in issuer or "#" in issuer or not is_safe_address(issuer, local=is_local_address(issuer)):
        return "issuer must be an https address without query, as the provider names it; http is for providers on this machine only"
    return ""


def is_local_address(address: str) -> bool:
    """Whether an address names this machine.

    >>> is_local_address("http://127.0.0.1:4000/x"), is_local_address("https://127.0.0.1.example/")
    (True, False)
    """
    try:
        return urlsplit(address).hostname in _LOOPBACK
    except ValueError:
        return False


def is_safe_address(address: object, *, local: bool) -> bool:
    """Whether requests may go there: https, and no credentials in it; with `local` also to this machine, which then may be without TLS.

    >>> is_safe_address("https://id.example/token", local=False), is_safe_address("https://localhost/token", local=False)
    (True, False)
    >>> is_safe_address("http://localhost:4000/token", local=True), is_safe_address("http://id.example/token", local=True)
    (True, False)
    """
    if not isinstance(address, str) or not 0 < len(address) <= _LONGEST_TEXT or not address.isascii():
        return False
    if any(character <= " " or character in '\\"<>' or character == "\x7f" for character in address):
        return False
    try:
        parts = urlsplit(address)
        port = parts.port
    except ValueError:
        return False
    if not parts.hostname or parts.username is not None or parts.password is not None or port == 0 or parts.fragment:
        return False
    if parts.hostname in _LOOPBACK:
        return local and parts.scheme in ("http", "https")
    return parts.scheme == "https"
