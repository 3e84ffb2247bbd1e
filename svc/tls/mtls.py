"""Client certificates: the setting `mtls`, and their users (spec: security §4)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from svc.auth.verifier import login_failed
from svc.clock import SYSTEM_CLOCK
from svc.errors import Problem
from svc.tls.peer import PeerCertificate
from svc.tls.revocation import Revocations
from svc.tls.revocation_settings import RevocationSettings

_BY_COMMON_NAME = ("Common Name", "CN")


@dataclass(frozen=True, slots=True)
class Mtls:
    """`user`: that of every client with a certificate. Without one, `by_name` says whether it is the user with the certificate's common name;
    if not, the certificate admits the connection and other credentials identify the user."""

    required: bool = False
    user: str | None = None
    by_name: bool = True
    revocation: RevocationSettings | None = None

    @classmethod
    def from_setting(cls, value: Any, *, verifies: bool = False) -> Mtls | None:
        """From the setting's value; None if no certificate is requested. `verifies`: whether revocation is looked up unless it says otherwise."""
        if value is None or value is False:
            return None
        fields: dict[str, Any] = {} if value is True else value
        user = fields.get("user", _BY_COMMON_NAME[0])
        by_name = user in _BY_COMMON_NAME
        return cls(
            bool(fields.get("required", False)),
            None if by_name else user,
            by_name,
            RevocationSettings.from_setting(fields.get("certificateVerification", verifies)),
        )


class ClientCertificates:
    """Maps client certificates to users: `auth.identify.Certificates`."""

    def __init__(self, mtls: Mtls, revocations: Revocations | None = None, wall: Callable[[], float] = SYSTEM_CLOCK.wall) -> None:
        self._mtls = mtls
        self._wall = wall
        self.revocations = revocations

    def username(self, certificate: PeerCertificate) -> str | None:
        """None: other credentials decide. Raises Problem 401 for a certificate without a user, or one that is revoked or has expired on its connection."""
        if certificate.not_after <= self._wall():
            raise Problem("Certificate expired", 401)
        if self.revocations is not None and not self.revocations.is_good(certificate):
            raise Problem("Certificate revoked or verification failed", 401)
        if not self._mtls.by_name:
            return self._mtls.user
        if certificate.common_name is None:
            raise login_failed()
        return certificate.common_name
