"""What to do where a port cannot be opened."""

from __future__ import annotations

import errno

import pytest

from svc.connection import listening
from svc.server.ports import open_port, port_hint


@pytest.mark.parametrize(
    ("code", "said"), [(errno.EACCES, "Ports below 1024 are for root"), (errno.EADDRINUSE, "--HTTP_PORT NUMBER"), (errno.EADDRNOTAVAIL, "")]
)
def test_the_hint(monkeypatch: pytest.MonkeyPatch, code: int, said: str) -> None:
    def refuse(port: int, hosts: object) -> None:
        raise OSError(code, "no", "127.0.0.1")

    monkeypatch.setattr(listening, "listen_on", refuse)
    with pytest.raises(OSError, match=r"http\.port 1, http\.host 127\.0\.0\.1: no") as raised:
        open_port("http.port", 1, ["127.0.0.1"], "http.host")
    assert said in (port_hint(raised.value) or "")
    assert bool(said) is (port_hint(raised.value) is not None)
