"""What was meant where no resource is; the hint in an answer: tests/integration/test_hints.py."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from svc.messages import HeaderBlock, Request
from svc.pages import links as module
from svc.pages.links import near_address


class _Resources(dict[str, Any]):
    def path_to(self, address: str, relative: str) -> str:
        return f"/{address}/{relative}"


RESOURCES: Any = _Resources((path, SimpleNamespace(path=path)) for path in ("", "Product", "api/v1/Order", "Hidden"))


@pytest.fixture(autouse=True)
def rights(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "is_readable", lambda registration, request: registration.path != "Hidden")


@pytest.mark.parametrize(
    ("path", "meant"),
    [
        ("/product/", "/Product/"),
        ("/Products/1", "/Product/"),
        ("/%50RODUCT", "/Product/"),
        ("/API/v1/orders/7", "/api/v1/Order/"),
        ("/hidden/", ""),
        ("/api/v1", ""),
        ("/other", ""),
        ("/", ""),
        ("/%ff", ""),
        ("/" + "product/" * 100, ""),
    ],
)
def test_what_is_spelt_alike_and_may_be_read(path: str, meant: str) -> None:
    found = near_address(RESOURCES, Request("GET", path, HeaderBlock([])))
    assert found == (f" (did you mean {meant}?)" if meant else "")
