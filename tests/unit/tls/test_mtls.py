"""The setting `mtls` (spec: security §4, configuration §2.2, §2.3)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from svc.config import Config
from svc.errors import ConfigError
from svc.tls.mtls import Mtls
from svc.tls.revocation_settings import CrlSettings, OcspSettings, RevocationSettings


def both(tmp_path: Path, document: dict[str, Any]) -> tuple[Mtls | None, Mtls | None]:
    """Of the application port and of the operations port."""
    config = Config.from_document(document, tmp_path)
    return Mtls.from_setting(config.http.mtls), Mtls.from_setting(config.operations_api.network.mtls)


@pytest.mark.parametrize(
    ("setting", "expected"),
    [
        (False, None),
        (True, Mtls()),
        ({}, Mtls()),
        ({"required": True}, Mtls(required=True)),
        ({"user": "CN"}, Mtls()),
        ({"user": "Common Name"}, Mtls()),
        ({"user": "ann"}, Mtls(user="ann", by_name=False)),
        ({"user": None, "required": True}, Mtls(required=True, by_name=False)),
        ({"certificateVerification": True}, Mtls(revocation=RevocationSettings())),
        ({"certificateVerification": False}, Mtls()),
        (
            {
                "certificateVerification": {
                    "failureMode": "fail-open",
                    "crl": {"timeout": 500, "failureMode": "fail-closed"},
                    "ocsp": {"enabled": False},
                }
            },
            Mtls(revocation=RevocationSettings(CrlSettings(timeout=0.5), OcspSettings(enabled=False, fails_open=True))),
        ),
        (
            {"certificateVerification": {"crl": {"cacheTtl": "1h", "gracePeriod": 0}, "ocsp": {"cacheTtl": 1000, "errorCacheTtl": "10s"}}},
            Mtls(revocation=RevocationSettings(CrlSettings(ttl=3600, grace=0), OcspSettings(ttl=1, error_ttl=10))),
        ),
    ],
)
def test_settings(tmp_path: Path, setting: Any, expected: Mtls | None) -> None:
    assert both(tmp_path, {"http": {"mtls": setting}}) == (expected, expected), "the operations port inherits it"


def test_the_operations_port_may_have_its_own(tmp_path: Path) -> None:
    document = {"http": {"mtls": {"required": True}}, "operationsApi": {"network": {"mtls": False}}}
    assert both(tmp_path, document) == (Mtls(required=True), None)
    document = {"http": {"mtls": False}, "operationsApi": {"network": {"mtls": {"user": "ann"}}}}
    assert both(tmp_path, document) == (None, Mtls(user="ann", by_name=False))


@pytest.mark.parametrize(
    "setting",
    [
        "yes",
        {"required": "yes"},
        {"user": 7},
        {"certificateVerification": "yes"},
        {"certificateVerification": {"failureMode": "open"}},
        {"certificateVerification": {"crl": {"timeout": "soon"}}},
        {"certificateVerification": {"ocsp": {"timeout": -1}}},
    ],
)
def test_faults_are_found_at_the_start(tmp_path: Path, setting: Any) -> None:
    with pytest.raises(ConfigError, match=r"http\.mtls"):
        Config.from_document({"http": {"mtls": setting}}, tmp_path)
