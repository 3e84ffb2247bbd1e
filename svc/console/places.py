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
    Place("operations", "Operations", "Ask", "svc.console.views.operations"),
    Place("sql", "SQL", "Ask", "svc.console.views.sql", "sql"),
    Place("graphql", "GraphQL", "Ask", "svc.console.views.graphql"),
)

BY_PATH = {place.path: place for place in PLACES}
