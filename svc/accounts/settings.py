"""The entry `accounts` of a config.yaml, read and checked (spec: rows §2.1).

accounts:
  role: member                      # of those who sign up
  identity: email                   # or username: what they log in with
  verify: true                      # the address is confirmed before the first login
  signUp: true
  passwords: {minimumLength: 10}
  lifetimes: {confirm: 1h, reset: 30m, email: 1h}
  limits: {signUps: 100, mails: 5}  # an hour: of one network, to one address
  url: https://shop.example         # what links in mails begin with
  attributes: [name]                # of the record that members set themselves
  pages: accounts                   # directory of templates
  hooks: accounts.py                # has before_sign_up, after_sign_up
  providers: [...]                  # spec: rows §2.6
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, cast
from urllib.parse import urlsplit

from svc.auth.passwords import DEFAULT_MIN_LENGTH
from svc.config.origins import hint, nearest
from svc.config.values import is_number, parse_duration

USERNAME: Literal["username"] = "username"
EMAIL: Literal["email"] = "email"

HOUR = 3600.0
LONGEST_LIFE = 7 * 24 * HOUR
LONGEST_PASSWORD = 128  # characters that a minimum may ask for
DEFAULT_PAGES = "accounts"
DEFAULT_HOOKS = "accounts.py"


@dataclass(frozen=True, slots=True)
class PasswordRules:
    """`minimum_length`: characters; at least `authentication.passwordMinLength` counts, whichever is larger."""

    minimum_length: int = DEFAULT_MIN_LENGTH


@dataclass(frozen=True, slots=True)
class Lifetimes:
    """Of codes, in seconds, by what they are for."""

    confirm: float = HOUR
    reset: float = HOUR / 2
    email: float = HOUR


@dataclass(frozen=True, slots=True)
class HourlyLimits:
    """`sign_ups`: that one network may ask for in an hour. `mails`: that are sent to one address in an hour because somebody has typed it."""

    sign_ups: int = 100
    mails: int = 5


@dataclass(frozen=True, slots=True)
class AccountSettings:
    """`role`: name of the role of those who sign up. `identity`: what they log in with. `verify`: an address counts once it is confirmed. `url`: what links in
    mails begin with; "": the address of this server. `attributes`: of the record that members may set, None: all that are not reserved. `pages`: directory of
    templates, below the application. `hooks`: module of the application; None: the default one, if it is there. `providers`: as in the file."""

    role: str
    identity: Literal["username", "email"] = USERNAME
    verify: bool = False
    sign_up: bool = True
    passwords: PasswordRules = PasswordRules()
    lifetimes: Lifetimes = Lifetimes()
    limits: HourlyLimits = HourlyLimits()
    url: str = ""
    attributes: tuple[str, ...] | None = None
    pages: str = DEFAULT_PAGES
    hooks: str | None = None
    providers: tuple[Mapping[str, Any], ...] = ()
    link_by_email: bool = False


@dataclass(frozen=True, slots=True)
class SettingsFault:
    """`path`: names in the entry that lead to it, for its line."""

    path: tuple[str, ...]
    message: str


@dataclass(slots=True)
class SettingsReader:
    """Reads one entry; `faults` says what is wrong."""

    faults: list[SettingsFault] = field(default_factory=list)

    def read(self, entry: object) -> AccountSettings | None:
        """None with faults."""
        if not isinstance(entry, Mapping):
            self._fault((), "accounts is a mapping with role: NAME, the role of those who sign up")
            return None
        self._refuse_unknown((), entry, OPTIONS)
        role = entry.get("role")
        if not isinstance(role, str) or not role:
            self._fault(("role",) if "role" in entry else (), "role: NAME is needed: the role of those who sign up")
        identity = entry.get("identity", USERNAME)
        if identity not in (USERNAME, EMAIL):
            self._fault(("identity",), f"identity is username or email, not {identity!r}")
        settings = AccountSettings(
            role=str(role),
            identity=cast(Literal["username", "email"], identity),
            verify=self._flag(entry, "verify", identity == EMAIL),
            sign_up=self._flag(entry, "signUp", True),
            passwords=self._passwords(entry),
            lifetimes=self._lifetimes(entry),
            limits=self._limits(entry),
            url=self._url(entry),
            attributes=self._attributes(entry),
            pages=self._text(entry, "pages", DEFAULT_PAGES),
            hooks=self._text(entry, "hooks", "") or None,
            providers=self._providers(entry),
            link_by_email=self._flag(entry, "linkByEmail", False),
        )
        return None if self.faults else settings

    def _passwords(self, entry: Mapping[str, Any]) -> PasswordRules:
        given = self._mapping(entry, "passwords", ("minimumLength",))
        return PasswordRules(self._count(given, ("passwords", "minimumLength"), DEFAULT_MIN_LENGTH, LONGEST_PASSWORD))

    def _limits(self, entry: Mapping[str, Any]) -> HourlyLimits:
        given, default = self._mapping(entry, "limits", ("signUps", "mails")), HourlyLimits()
        return HourlyLimits(
            self._count(given, ("limits", "signUps"), default.sign_ups, 1_000_000),
            self._count(given, ("limits", "mails"), default.mails, 1000),
        )

    def _lifetimes(self, entry: Mapping[str, Any]) -> Lifetimes:
        given, default = self._mapping(entry, "lifetimes", ("confirm", "reset", "email")), Lifetimes()
        return Lifetimes(*(self._life(given, name, getattr(default, name)) for name in ("confirm", "reset", "email")))

    def _life(self, given: Mapping[str, Any], name: str, default: float) -> float:
        if name not in given:
            return default
        try:
            seconds = float(parse_duration(given[name]))
        except ValueError as error:
            self._fault(("lifetimes", name), f"lifetimes.{name} {error}")
            return default
        if not 60 <= seconds <= LONGEST_LIFE:
            self._fault(("lifetimes", name), f"lifetimes.{name} must be from 1m to 7d: a code in an old mail is a way into the account")
        return seconds

    def _count(self, given: Mapping[str, Any], path: tuple[str, str], default: int, high: int) -> int:
        value = given.get(path[1], default)
        if not is_number(value) or int(value) != value or not 1 <= value <= high:
            self._fault(path, f"{'.'.join(path)} must be a whole number from 1 to {high}, not {value!r}")
            return default
        return int(value)

    def _url(self, entry: Mapping[str, Any]) -> str:
        url = self._text(entry, "url", "")
        parts = urlsplit(url)
        if url and (parts.scheme not in ("http", "https") or not parts.netloc or parts.query or parts.fragment):
            self._fault(("url",), f"url is what links in mails begin with, such as https://shop.example, not {url!r}")
        return url.rstrip("/")

    def _attributes(self, entry: Mapping[str, Any]) -> tuple[str, ...] | None:
        given = entry.get("attributes")
        if given is None:
            return None
        if not isinstance(given, list) or not all(isinstance(name, str) for name in given):
            self._fault(("attributes",), "attributes is a list of names: those of the record that members set themselves")
            return None
        return tuple(given)

    def _providers(self, entry: Mapping[str, Any]) -> tuple[Mapping[str, Any], ...]:
        given = entry.get("providers", [])
        if not isinstance(given, list) or not all(isinstance(each, Mapping) for each in given):
            self._fault(("providers",), "providers is a list of mappings with name, issuer, clientId and clientSecret")
            return ()
        return tuple(given)

    # --- values ----------------------------------------------------------------------------------------------------------------------

    def _flag(self, entry: Mapping[str, Any], name: str, default: bool) -> bool:
        value = entry.get(name, default)
        if not isinstance(value, bool):
            self._fault((name,), f"{name} must be true or false, not {value!r}")
            return default
        return value

    def _text(self, entry: Mapping[str, Any], name: str, default: str) -> str:
        value = entry.get(name, default)
        if not isinstance(value, str):
            self._fault((name,), f"{name} must be text, not {value!r}")
            return default
        return value

    def _mapping(self, entry: Mapping[str, Any], name: str, known: tuple[str, ...]) -> Mapping[str, Any]:
        given = entry.get(name, {})
        if not isinstance(given, Mapping):
            self._fault((name,), f"{name} is a mapping with {', '.join(known)}")
            return {}
        self._refuse_unknown((name,), given, known)
        return given

    def _refuse_unknown(self, path: tuple[str, ...], given: Mapping[str, Any], known: tuple[str, ...]) -> None:
        for name in given:
            if name not in known:
                meant = nearest(str(name), list(known))
                self._fault(
                    (*path, str(name)),
                    f"'{name}' is not an option of {'.'.join(('accounts', *path))}{hint(meant)}; there is {', '.join(known)}",
                )

    def _fault(self, path: tuple[str, ...], message: str) -> None:
        self.faults.append(SettingsFault(path, message))


OPTIONS = (
    "role", "identity", "verify", "signUp", "passwords", "lifetimes", "limits", "url", "attributes", "pages", "hooks", "providers", "linkByEmail",
)  # fmt: skip
