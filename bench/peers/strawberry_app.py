"""The peer made of Strawberry and SQLite: items and brands in GraphQL. uvicorn runs it as `strawberry_app:app`; BENCH_DATABASE names the file.

Documents that were parsed and validated are kept, as Strawberry's page on performance advises, and a list comes with its brands in one statement.
"""

from __future__ import annotations

import os
import sqlite3
from typing import Any

import strawberry
from strawberry.asgi import GraphQL
from strawberry.extensions import ParserCache, ValidationCache

database = sqlite3.connect(os.environ["BENCH_DATABASE"])
BY_ID = "SELECT item.id, item.name, category, price, brandId, brand.name FROM item LEFT JOIN brand ON brand.id = brandId WHERE item.id = ?"
BY_CATEGORY = BY_ID.replace("item.id = ?", "category = ?")


@strawberry.type
class Brand:
    id: strawberry.ID
    name: str


@strawberry.type
class Item:
    id: strawberry.ID
    name: str
    category: str
    price: float
    brand: Brand | None


def item_of(row: tuple[Any, ...]) -> Item:
    id, name, category, price, brand_id, brand_name = row
    brand = None if brand_name is None else Brand(id=brand_id, name=brand_name)
    return Item(id=id, name=name, category=category, price=price, brand=brand)


@strawberry.type
class Query:
    @strawberry.field(name="Item")
    def items(self, id: strawberry.ID | None = None, category: str | None = None) -> list[Item]:
        rows = database.execute(BY_CATEGORY, (category,)) if id is None else database.execute(BY_ID, (id,))
        return [item_of(row) for row in rows]


app = GraphQL[None, None](strawberry.Schema(Query, extensions=[lambda: ParserCache(maxsize=100), lambda: ValidationCache(maxsize=100)]))
