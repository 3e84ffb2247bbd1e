"""Where queries in GraphQL are written: the page of the application port (spec: console §14)."""

from __future__ import annotations

from svc.apps.graphql_entry import entry_of, is_on_main_ports
from svc.console.page import ConsolePage
from svc.messages import Response


async def show(page: ConsolePage) -> Response:
    entries = [(app.name, entry) for app in page.node.apps if (entry := entry_of(app.config)) is not None]
    names = [name for name, entry in entries if is_on_main_ports(entry)]
    root = page.application_root
    return await page.show(
        "graphql.html",
        names=names,
        others=[name for name, entry in entries if not is_on_main_ports(entry)],
        address=f"{root}graphql" if root else "",
    )
