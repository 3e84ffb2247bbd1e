# ruff: noqa
# fmt: off
"""Code with faults: each checker reports each line that is marked, and no other."""

from typing import Any

from svc import Resource, databases, tables


async def wrong() -> None:
    product = await tables.Product.get("pen")
    print(product.name)  # wrong: it may be None
    assert product is not None
    print(product.nmae)  # wrong: unknown attribute
    product.name = "x"  # wrong: a record that was read cannot be changed
    text: str = product.stock  # wrong: a number
    none: str = product.price  # wrong: a number or None
    key: int = product["class"]  # wrong: a text
    print(text, none, key)
    print(tables.Prodct)  # wrong: unknown table
    print(databases.shop.Product.get("x"))  # wrong: its key is a number
    print(databases.shopp)  # wrong: unknown database
    await tables.Product.get(3)  # wrong: the key is a text
    tables.Product.search({"conditions": [{"attribute": "nmae", "value": "x"}]})  # wrong: unknown attribute
    tables.Product.search({"conditions": [{"attribute": "price", "comparator": "less", "value": 3}]})  # wrong: unknown comparator
    tables.Product.search({"conditions": [{"attribute": "price", "value": "cheap"}]})  # wrong: type of the value
    tables.Product.search({"conditions": [{"attribute": "price", "comparator": "between", "value": 3}]})  # wrong: needs two values
    tables.Product.search({"conditions": [{"attribute": "brand.contry", "value": "x"}]})  # wrong: unknown attribute of a relationship
    tables.Product.search({"conditions": [{"attribute": "brand", "conditions": [{"attribute": "contry", "value": "x"}]}]})  # wrong: the same
    tables.Product.search({"condition": []})  # wrong: unknown member
    (await tables.Product.as_user("ann").get("pen")).name  # wrong: it may be None
    await tables.Product.as_user("ann").patch("pen", {"stock": "many"})  # wrong: a number
    tables.Product.as_user(3)  # wrong: a name or a user
    tables.Product.search({"sort": {"attribute": "nmae"}})  # wrong: unknown attribute
    tables.Product.search({"select": ["name", "nmae"]})  # wrong: unknown attribute
    tables.Product.search({"limit": "3"})  # wrong: a number
    tables.Product.search(limit="3")  # wrong: a number
    tables.Product.search(conditions=[{"attribute": "nmae", "value": "x"}])  # wrong: unknown attribute
    await tables.Product.create({"stock": 3})  # wrong: the name is missing
    await tables.Product.create({"name": "Pen", "stock": "3"})  # wrong: a number
    await tables.Product.create({"name": "Pen", "stock": 3, "state": "OLD"})  # wrong: no value of the enum
    await tables.Product.create({"name": "Pen", "stock": 3, "nmae": 1})  # wrong: unknown attribute
    await tables.Product.create({"name": None, "stock": 3})  # wrong: null is refused
    await tables.Product.create({"name": "Pen", "stock": 3, "label": "x"})  # wrong: it is computed
    await tables.Product.put("pen", {"name": "Pen", "stock": 3, "place": {"row": 3}})  # wrong: the hall is missing
    await tables.Product.put("pen", {"name": "Pen", "stock": 3, "sizes": [None]})  # wrong: elements are required
    await tables.Product.patch("pen", {"price": "3"})  # wrong: a number
    await tables.Product.patch({"price": 3})  # wrong: the target is missing
    await tables.Product.delete(3)  # wrong: the key is a text
    tables.Product.patch("pen", {"price": 3})  # wrong: it is not awaited
    updated = await tables.Product.update("pen")
    updated.price = "3"  # wrong: a number
    updated.nmae = "x"  # wrong: unknown attribute
    updated["class"] = 3  # wrong: a text
    updated.add_to("name", 1)  # wrong: no number
    updated.label = "x"  # wrong: it is computed
    print(tables.Product.search({}).first().name)  # wrong: it is not awaited
    async for each in tables.Product.search({}):
        print(each.nmae)  # wrong: unknown attribute
    related = await product.brand
    print(related.country)  # wrong: it may be None


class Seat(tables.Seat):  # wrong: it is in another database
    pass


class Product(tables.Product):
    def get(self) -> Any:
        print(self.nmae)  # wrong: unknown attribute
        text: str = self.stock  # wrong: a number
        return text


class Report(Resource):
    async def get(self) -> Any:
        return (await tables.Brand.get("x")).country  # wrong: it may be None
