"""The peer made of FastAPI, SQLModel and SQLite: the same records, indexes and requests, in the form that SQLModel's tutorial teaches.

uvicorn runs it as `fastapi_app:app`; BENCH_DATABASE names the SQLite file, BENCH_USER and BENCH_PASSWORD the one user.
"""

from __future__ import annotations

import os
import secrets
import uuid
from collections.abc import Iterator
from typing import Annotated, Any

from fastapi import Depends, FastAPI, HTTPException, Response
from fastapi.security import HTTPBasic, HTTPBasicCredentials
from sqlalchemy import Engine, event, func
from sqlmodel import Field, Session, SQLModel, col, create_engine, select


class Brand(SQLModel, table=True):
    id: str = Field(primary_key=True)
    name: str


class ItemBase(SQLModel):
    name: str
    category: str = Field(index=True)
    price: float = Field(index=True)
    rank: int = Field(index=True)
    active: bool
    brandId: str
    description: str


class ItemBody(ItemBase):
    id: str | None = None


class Item(ItemBase, table=True):
    id: str = Field(primary_key=True)


class Created(ItemBase, table=True):
    id: str = Field(primary_key=True)


class Spare(ItemBase, table=True):
    id: str = Field(primary_key=True)


class ItemWithBrand(SQLModel):
    name: str
    price: float
    brand: str | None


def open_database(path: str) -> Engine:
    engine = create_engine(f"sqlite:///{path}", connect_args={"check_same_thread": False})

    @event.listens_for(engine, "connect")
    def prepare(connection: Any, _: Any) -> None:
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = FULL")  # an answered write is on the disk, as with svc
        connection.execute("PRAGMA busy_timeout = 10000")

    return engine


engine = open_database(os.environ["BENCH_DATABASE"])
USER, PASSWORD = os.environ["BENCH_USER"].encode(), os.environ["BENCH_PASSWORD"].encode()
basic = HTTPBasic()


def get_session() -> Iterator[Session]:
    with Session(engine) as session:
        yield session


def check_user(credentials: Annotated[HTTPBasicCredentials, Depends(basic)]) -> None:
    # A constant, compared in constant time: cheaper than any real store of users, in favour of this peer.
    user = secrets.compare_digest(credentials.username.encode(), USER)
    password = secrets.compare_digest(credentials.password.encode(), PASSWORD)
    if not (user and password):
        raise HTTPException(401, headers={"WWW-Authenticate": "Basic"})


SessionOf = Annotated[Session, Depends(get_session)]
app = FastAPI(dependencies=[Depends(check_user)])


@app.get("/item/{id}")
def read_item(id: str, session: SessionOf) -> Item:
    item = session.get(Item, id)
    if item is None:
        raise HTTPException(404)
    return item


@app.get("/item")
def find_items(
    session: SessionOf,
    category: str | None = None,
    price_from: float | None = None,
    price_below: float | None = None,
    sort: str | None = None,
) -> list[Item]:
    query = select(Item)
    if category is not None:
        query = query.where(Item.category == category)
    if price_from is not None:
        query = query.where(Item.price >= price_from)
    if price_below is not None:
        query = query.where(Item.price < price_below)
    if sort == "rank":
        query = query.order_by(col(Item.rank))
    return list(session.exec(query))


@app.get("/count")
def count_items(session: SessionOf, category: str) -> int:
    return session.exec(select(func.count()).select_from(Item).where(Item.category == category)).one()


@app.get("/joined")
def find_with_brand(session: SessionOf, category: str) -> list[ItemWithBrand]:
    query = (
        select(Item.name, Item.price, Brand.name).join(Brand, col(Brand.id) == Item.brandId, isouter=True).where(Item.category == category)
    )
    return [ItemWithBrand(name=name, price=price, brand=brand) for name, price, brand in session.exec(query)]


@app.put("/item/{id}", status_code=204)
def replace_item(id: str, body: ItemBody, session: SessionOf) -> Response:
    item = session.get(Item, id) or Item(id=id, **body.model_dump(exclude={"id"}))
    item.sqlmodel_update(body.model_dump(exclude={"id"}))
    session.add(item)
    session.commit()
    return Response(status_code=204)


@app.post("/created", status_code=201)
def create(body: ItemBody, session: SessionOf) -> str:
    created = Created(**body.model_dump(exclude={"id"}), id=body.id or str(uuid.uuid4()))
    session.add(created)
    session.commit()
    return created.id


@app.delete("/spare/{id}", status_code=204)
def delete(id: str, session: SessionOf) -> Response:
    spare = session.get(Spare, id)
    if spare is not None:
        session.delete(spare)
        session.commit()
    return Response(status_code=204)
