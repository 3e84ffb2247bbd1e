"""CONNECT is refused under overload (spec: http §14.2)."""

from __future__ import annotations

from pathlib import Path

import pytest

import svc.testing
from svc.connection.tunnel import TunnelConnection
from tests.unit.testing.conftest import write_application


@pytest.mark.parametrize(("version", "code"), [(5, "0x89"), (4, "0x03")])
def test_connect_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: int, code: str) -> None:
    with svc.testing.app(write_application(tmp_path / "shop", {"config.yaml": "rest: true\n"})) as shop:
        shop.mqtt("before", version=version).disconnect()
        with monkeypatch.context() as patch:
            patch.setattr(TunnelConnection, "is_overdue", property(lambda self: True))
            with pytest.raises(AssertionError, match=f"CONNECT is refused: code {code}"):
                shop.mqtt("late", version=version)
        shop.mqtt("late", version=version).disconnect()
