"""The setting `certificateVerification` (spec: security §4), and the exception of its methods."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


class NoAnswer(Exception):
    """A method gives no answer, for this reason."""


@dataclass(frozen=True, slots=True)
class CrlSettings:
    """Seconds. `ttl`: how long a list is used without asking again, if it does not say itself that it ends before; `grace`: how long beyond its end."""

    enabled: bool = True
    timeout: float = 10.0
    ttl: float = 86_400.0
    grace: float = 86_400.0
    fails_open: bool = False


@dataclass(frozen=True, slots=True)
class OcspSettings:
    """Seconds. `ttl`, `error_ttl`: how long an answer, or that there was none, is remembered."""

    enabled: bool = True
    timeout: float = 5.0
    ttl: float = 3600.0
    error_ttl: float = 300.0
    fails_open: bool = False


@dataclass(frozen=True, slots=True)
class RevocationSettings:
    crl: CrlSettings = CrlSettings()
    ocsp: OcspSettings = OcspSettings()

    @classmethod
    def from_setting(cls, value: Any) -> RevocationSettings | None:
        """From the setting's value: true, false, or the fields that are given, with dotted names and durations in seconds. None: off."""
        if value is None or value is False:
            return None
        given: dict[str, Any] = {} if value is True else value
        mode = given.get("failureMode", "fail-closed")

        def fails_open(method: str) -> bool:
            return bool((given.get(f"{method}.failureMode") or mode) == "fail-open")

        crl, ocsp = CrlSettings(), OcspSettings()
        return cls(
            CrlSettings(
                given.get("crl.enabled", crl.enabled),
                given.get("crl.timeout", crl.timeout),
                given.get("crl.cacheTtl", crl.ttl),
                given.get("crl.gracePeriod", crl.grace),
                fails_open("crl"),
            ),
            OcspSettings(
                given.get("ocsp.enabled", ocsp.enabled),
                given.get("ocsp.timeout", ocsp.timeout),
                given.get("ocsp.cacheTtl", ocsp.ttl),
                given.get("ocsp.errorCacheTtl", ocsp.error_ttl),
                fails_open("ocsp"),
            ),
        )
