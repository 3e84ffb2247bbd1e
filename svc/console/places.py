"""What there is in the console, in the order of its navigation."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Place:
    """`path`: below `/console/`. `module`: has `async def show(page)` for GET, and if it has forms `async def send(page)` for POST; both return a
    Response and raise Problem. `operation`: a caller who may not run it does not see the place; "": everybody who is logged in does."""

    path: str
    title: str
    group: str
    module: str
    operation: str = ""


PLACES: tuple[Place, ...] = (
    Place("", "Overview", "Server", "svc.console.views.overview"),
    Place("configuration", "Configuration", "Server", "svc.console.views.configuration", "get_configuration"),
    Place("certificates", "Certificates", "Server", "svc.console.views.certificates", "list_certificates"),
    Place("ssh-keys", "SSH keys", "Server", "svc.console.views.ssh_keys", "list_ssh_keys"),
    Place("applications", "Applications", "Server", "svc.console.views.applications", "get_components"),
)

BY_PATH = {place.path: place for place in PLACES}
