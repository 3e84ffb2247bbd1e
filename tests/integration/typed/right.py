"""Code that is right: no checker has anything to say about it, and it runs."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from datetime import UTC, datetime
from typing import Any, Literal

from svc import (
    Blob,
    ClientError,
    RequestTarget,
    Resource,
    Response,
    auth,
    config,
    create_blob,
    databases,
    get_context,
    get_user,
    is_main_thread,
    logger,
    mail,
    resources,
    run_in_thread,
    server,
    tables,
    transaction,
    worker_index,
)


class Shelf(tables.Product):
    def get(self, query: RequestTarget | None = None) -> Any:
        self.isCheap = self.price is not None and self.price < 10
        self.place = {"hall": "A", "row": 4}
        self["class"] = "a"
        self.soldOut = self.stock == 0
        return super().get(query)

    def validate(self, record: Any, partial: bool = False) -> None:
        super().validate(record, partial)

    def allow_read(self, user: Any, target: RequestTarget) -> bool:
        return user is not None

    @classmethod
    async def post(cls, target: RequestTarget, data: Any) -> Any:
        product = await cls.update(target.id, {"price": 2})
        product.subtract_from("stock", 1, at_least=0)
        product.add_to("price", 1.5)
        product.name = product.name.upper()
        product.tags = ["a"]
        product.sizes = [1]
        if not product.does_exist():
            raise ClientError("there is none", 404)
        return {"left": product.stock, "id": product.get_id()}

    async def put(self, data: Any) -> Any:
        await super().put(data)

    async def connect(self, incoming: Any = None, query: RequestTarget | None = None) -> AsyncIterator[Any]:
        events = tables.Product.subscribe(self.get_id(), omit_current=True)
        async for event in events:
            yield event.value


class Bound(databases.data.Product):
    load_as_instance = False

    def get(self, target: RequestTarget) -> Any:
        return super().get(target)

    def put(self, target: RequestTarget, data: Any) -> Any:
        return super().put(target, data)


class Ticket(databases.shop.Seat):
    def delete(self) -> Any:
        return super().delete()


class Report(Resource):
    async def get(self) -> dict[str, float]:
        found: dict[str, float] = {}
        async for product in tables.Product.search({"conditions": [{"attribute": "price", "comparator": "gt", "value": 3}], "limit": 5}):
            found[product.name] = product.price or 0
        return found


def label(product: tables.Product.Record, changes: tables.Product.Changes) -> str:
    return product.name + str(changes.get("price"))


async def read() -> dict[str, Any]:
    product = await tables.Product.get("pen")
    if product is None:
        return {}
    name: str = product.name
    price: float | None = product.price
    stock: int = product.stock
    tags: list[str | None] | None = product.tags
    sizes: list[int] | None = product.sizes
    since: datetime | None = product.since
    code: bytes | None = product.code
    photo: Blob | None = product.photo
    weight: int | None = product.weight
    changed: int | None = product.changed
    computed: str | None = product.label
    hall: str = product.place["hall"] if product.place is not None else ""
    keyword: str | None = product["class"]
    private: str | None = product["_private"]
    method: str | None = product["get"]
    number: int | None = product.str
    other: Any = product["not declared"]
    brand = await product.brand
    if brand is not None:
        country: str | None = brand.country
        print(country, [each.name async for each in brand.products])
        assert country == "FR"
    copy = product.copy()
    copy["price"] = 4.5
    await tables.Product.put("pen", copy)
    await tables.Product.put("pen", {**product.copy(), "price": 4})
    plain: dict[str, Any] = {**product, "x": 1}
    print(plain, len(product), product.get_id().upper(), product.get_updated_time(), label(product, {}))
    columns = {
        "name": name,
        "price": price,
        "stock": stock,
        "tags": tags,
        "sizes": sizes,
        "since": since,
        "code": code,
        "photo": photo,
        "weight": weight,
    }
    return {
        **columns,
        "changed": changed,
        "label": computed,
        "hall": hall,
        "class": keyword,
        "_private": private,
        "get": method,
        "str": number,
        "other": other,
    }


async def search() -> None:
    conditions: list[tables.Product.Condition] = [
        {"attribute": "name", "comparator": "starts_with", "value": "P"},
        {"attribute": "price", "comparator": "between", "value": [1, 2]},
        {"attribute": "since", "comparator": ">=", "value": datetime.now(UTC)},
        {"attribute": "since", "comparator": "lt", "value": "2030-01-01"},
        {"attribute": "tags", "value": "new"},
        {"attribute": "brand.country", "value": "FR"},
        {"attribute": ["brand", "country"], "value": None},
        {"attribute": "place.hall", "comparator": "contains", "value": "A"},
        {"attribute": "class", "value": "x"},
        {"operator": "or", "conditions": [{"attribute": "stock", "value": 0}, {"attribute": "soldOut", "value": True}]},
        {"attribute": "brand", "conditions": [{"attribute": "country", "value": "FR"}]},
    ]
    query: tables.Product.Query = {"conditions": conditions, "operator": "and", "limit": 3, "offset": 1}
    query["sort"] = {"attribute": "price", "descending": True, "next": {"attribute": "name"}}
    names: list[str] = [each.name async for each in tables.Product.search(query)]
    first: tables.Product.Record | None = await tables.Product.search(conditions).first()
    every: list[tables.Product.Record] = await (await tables.Product.search()).to_list()
    prices: list[float | None] = await tables.Product.get(query).map(lambda each: each.price).filter(bool).to_list()
    few = await tables.Product.search(conditions=conditions, limit=3, sort={"attribute": "name"}).slice(0, 2).to_list()
    selected = await tables.Product.search({"select": ["name", {"name": "brand", "select": ["country"]}, "$id"]}).to_list()
    values = await tables.Product.search({"select": "price"}).to_list()
    counted = await tables.Product.search({"aggregate": {"group": ["brandName"], "functions": ["count", {"sum": "price"}]}}).to_list()
    plan = await tables.Product.search({"explain": True, "conditions": conditions})
    part = await tables.Product.get({"id": "pen", "select": ["price"]})
    print(names, first, every, prices, few, selected, values, counted, plan, part)
    async for each in await tables.Product.get(RequestTarget("/?name=Pen")):
        print(each)


async def write() -> None:
    created = await tables.Product.create({"name": "Pen", "stock": 3, "tags": ["a", "b"], "photo": create_blob(b"...")})
    print(created.name, created.get_id())
    await tables.Product.put("pen", {"name": "Pen", "stock": 2, "place": {"hall": "A"}, "since": datetime.now(UTC)})
    await tables.Product.put([{"id": "a", "name": "A", "stock": 1}])
    await tables.Product.patch("pen", {"price": 4, "class": None})
    await tables.Product.patch("pen", {"stock": {"__op__": "add", "value": -1}})
    await tables.Product.delete("pen")
    await tables.Product.delete({"conditions": [{"attribute": "stock", "value": 0}]})
    await tables.Product.publish("pen", {"said": 1})
    await tables.Product.invalidate("pen")
    posted = await tables.Product.post({"name": "A", "stock": 3, "state": "NEW", "states": ["USED"]})
    state: Literal["NEW", "USED"] | None = posted.state
    print(state)
    print(posted.price)
    updated = await tables.Product.update(posted.id)
    updated.price = 3
    updated["class"] = None
    del updated["price"]
    updated.set("undeclared", 3)
    await updated.save()
    print(*await asyncio.gather(tables.Product.get("a"), tables.Brand.get("b")))
    task = asyncio.create_task(tables.Product.get("pen"))
    print(await task)
    async with transaction() as txn:
        print(txn.timestamp)
    number: int = await transaction(lambda txn: 3)
    print(number)


async def others() -> None:
    print((await tables.Literal.get(3)), tables.overload.table_name, tables["None"].primary_key, await tables["keys"].get("x"), len(tables))
    print(await tables.Folder.get(["a", "b"]), await tables.Folder.get("a"), await tables.Loose.get(3), await tables.Loose.get("x"))
    odd = await tables["odd-name"].get("x")
    size: int | None = odd.size if odd is not None else None
    seat = await databases.shop.Seat.create({"price": 3, "code": "A1"})
    price: float = seat.price
    print(
        size,
        price,
        (await databases.shop.Product.get(4)),
        await databases["two-words"]["Empty"].get("x"),
        await databases["data"]["Product"].get("x"),
    )
    if "SomeOther" in tables:
        print(await tables["SomeOther"].get(3))
    print(await tables.Closed.create({"value": 3}), list(tables), "Product" in databases)
    subscription = await tables.Product.subscribe(conditions=[{"attribute": "price", "comparator": "lt", "value": 3}], listener=print)
    subscription.on("data", lambda event: print(event.type))
    subscription.on("close", print).end()
    count = await tables.Product.get_record_count()
    print(count.record_count, tables.Product.get_new_id(), tables.Product.coerce_id("a"), tables.Product.attributes)
    async for entry in tables.Product.get_history():
        print(entry.type)
    user = await auth("ann")
    current = get_user()
    print(user, None if current is None else current.username, config.get("x"), worker_index, is_main_thread, get_context(), resources)
    logger.info("x", 3)
    send: Callable[[str, str], Awaitable[str]] = mail.send
    print(send)
    length: int = await run_in_thread(len, "abc")
    print(length, Response(data={"a": 1}, status=202).headers.get("x"), await server.get_user("x"))


async def seen_by(name: str) -> None:
    table = tables.Product.as_user(name)
    product = await table.get("pen")
    stock: int | None = None if product is None else product.stock
    async for each in table.search({"conditions": [{"attribute": "price", "comparator": "lt", "value": 3}]}):
        price: float | None = each.price
        print(price, stock)
    made = await table.create({"name": "Cap", "stock": 1})
    text: str = made.name
    await table.patch("pen", {"stock": 2})
    print(text, await table.delete("pen"), table.user)
