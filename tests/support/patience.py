"""Clients of tests wait as long as a busy machine may take. By default httpx gives up after 5 seconds without a byte, and websockets after 10."""

from __future__ import annotations

import websockets
from httpx import _config
from websockets.sync import client as sync_client

from tests.support.waiting import LIMIT


def be_patient() -> None:
    for what in ("connect", "read", "write", "pool"):
        setattr(_config.DEFAULT_TIMEOUT_CONFIG, what, LIMIT)
    for connect in (sync_client.connect, websockets.connect.__init__):
        connect.__kwdefaults__.update(open_timeout=LIMIT, ping_timeout=LIMIT, close_timeout=LIMIT)
