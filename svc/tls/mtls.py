"""What is asked of clients by way of certificates: the setting `mtls` (contract: security §4)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from svc.tls.revocation_settings import RevocationSettings

_BY_COMMON_NAME = ("Common Name", "CN")


@dataclass(frozen=True, slots=True)
class Mtls:
    """`user`: who every client with a certificate is. Without one, `by_name` says whether it is the user of the certificate's common name;
    if not, the certificate admits the connection and other credentials tell the user."""

    required: bool = False
    user: str | None = None
    by_name: bool = True
    revocation: RevocationSettings | None = None

    @classmethod
    def from_setting(cls, value: Any, *, verifies: bool = False) -> Mtls | None:
        """From the setting's value; None if no certificate is asked for. `verifies`: whether revocation is looked up unless it says otherwise."""
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
