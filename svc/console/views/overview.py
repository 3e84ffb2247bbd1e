"""What the server is and how it is (spec: console §3)."""

from __future__ import annotations

from svc import __version__
from svc.console.page import ConsolePage
from svc.messages import Response


async def show(page: ConsolePage) -> Response:
    return await page.show("overview.html", version=__version__)
