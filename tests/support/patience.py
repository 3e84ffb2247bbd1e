"""Clients of tests wait as long as a busy machine may take. By default httpx gives up after 5 seconds without a byte, and websockets after 10."""

from __future__ import annotations

import inspect

import httpx
import websockets
from websockets.sync import client as sync_client

from tests.support.waiting import LIMIT

_HTTPX = (httpx.get, httpx.options, httpx.head, httpx.post, httpx.put, httpx.patch, httpx.delete, httpx.request, httpx.stream)


def be_patient() -> None:
    """Change the defaults, for the whole process. Clients of httpx share a context: each would read the certificates of all authorities again, for 30 ms."""
    context = httpx.create_ssl_context()
    for call in (*_HTTPX, httpx.Client.__init__, httpx.AsyncClient.__init__):
        inspect.unwrap(call).__kwdefaults__.update(timeout=httpx.Timeout(LIMIT), verify=context)
    for connect in (sync_client.connect, websockets.connect.__init__):
        connect.__kwdefaults__.update(open_timeout=LIMIT, ping_timeout=LIMIT, close_timeout=LIMIT)
