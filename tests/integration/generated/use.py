"""A program that uses the client that openapi-python-client has generated. Checked by mypy, then run: `use.py URL PASSWORD`."""

from __future__ import annotations

import datetime
import sys
from http import HTTPStatus
from io import BytesIO

from shop_client import Client
from shop_client.api.brand import create_brands
from shop_client.api.product import (
    create_product,
    create_products,
    delete_product,
    delete_products,
    download_product_photo,
    get_product,
    list_products,
    replace_product,
    replace_products,
    select_products,
    update_product,
    upload_product_photo,
)
from shop_client.api.shoporders import create_order, get_order
from shop_client.models.blob import Blob
from shop_client.models.brand_create import BrandCreate
from shop_client.models.brand_part import BrandPart
from shop_client.models.increment import Increment
from shop_client.models.increment_op import IncrementOp
from shop_client.models.list_products_count import ListProductsCount
from shop_client.models.order import Order
from shop_client.models.order_create import OrderCreate
from shop_client.models.place import Place
from shop_client.models.problem import Problem
from shop_client.models.product import Product
from shop_client.models.product_create import ProductCreate
from shop_client.models.product_keyed import ProductKeyed
from shop_client.models.product_part import ProductPart
from shop_client.models.product_replace import ProductReplace
from shop_client.models.product_update import ProductUpdate
from shop_client.models.state import State
from shop_client.types import File, Unset

URL, PASSWORD = sys.argv[1:]
DAY = datetime.datetime(2026, 3, 1, 12, 30, tzinfo=datetime.UTC)
client = Client(base_url=URL, httpx_args={"auth": ("admin", PASSWORD)})


def record(id: str) -> Product:
    found = get_product.sync(id, client=client)
    assert isinstance(found, Product), found
    return found


def listed(found: Problem | list[Product] | None) -> list[str]:
    assert isinstance(found, list), found
    return [each.id for each in found]


# Create: one, with a key and without, and several.
pen = ProductCreate(
    id="pen/1",
    name="Pen",
    price=2.5,
    stock=3,
    weight=2**40,
    atoms=2**70,
    made=DAY,
    sold=True,
    tags=["a", "b"],
    seal="AAEC",
    brand_id="acme",
)
pen.state = State.USED
pen.place = Place(city="Oslo", since=DAY)
pen["colour"] = "red"  # the table is not sealed
assert create_product.sync(client=client, body=pen) == "pen/1"
made = create_product.sync(client=client, body=ProductCreate(name="Without a key"))
assert isinstance(made, str)
keys = create_products.sync(
    client=client, body=[ProductCreate(id="ink", name="Ink", price=4), ProductCreate(id="cap", name="Cap", price=1)]
)
assert keys == ["ink", "cap"], keys
assert create_brands.sync(client=client, body=[BrandCreate(id="acme", name="Acme")]) == ["acme"]

# Read.
found = record("pen/1")
assert (found.name, found.price, found.stock, found.weight, found.atoms, found.made) == ("Pen", 2.5, 3, 2**40, 2**70, DAY)
assert found.state is State.USED
assert (found.sold, found.tags, found.seal, found["colour"]) == (True, ["a", "b"], "AAEC", "red")
assert isinstance(found.place, Place) and (found.place.city, found.place.since) == ("Oslo", DAY)
assert isinstance(found.created, datetime.datetime)

# Find.
assert listed(list_products.sync(client=client, name="Ink")) == ["ink"]
assert listed(list_products.sync(client=client, made=DAY)) == ["pen/1"]
assert listed(list_products.sync(client=client, state=State.USED)) == ["pen/1"]
assert listed(list_products.sync(client=client, sold=True, price=2.5)) == ["pen/1"]
found_sorted = list_products.sync_detailed(
    client=client,
    field_where="price>=1&(name==Ink|name==Cap|price<3)",
    field_sort="-price,name",
    field_limit=2,
    field_offset=1,
    field_count=ListProductsCount.EXACT,
)
assert listed(found_sorted.parsed) == ["pen/1", "cap"] and found_sorted.headers["X-Total-Count"] == "3"
selected = select_products.sync(client=client, field_select="name,double,brand{name}", id="pen/1")
assert isinstance(selected, list) and isinstance(selected[0], ProductPart) and isinstance(selected[0].id, Unset), selected
assert (selected[0].name, selected[0].double) == ("Pen", 5.0)
assert isinstance(selected[0].brand, BrandPart) and selected[0].brand.name == "Acme"
refused = list_products.sync(client=client, field_sort="weigth")
assert isinstance(refused, Problem) and refused.status == 400, refused

# Change.
assert update_product.sync_detailed("pen/1", client=client, body=ProductUpdate(stock=Increment(IncrementOp.ADD, 2))).status_code == 204
assert record("pen/1").stock == 5
assert replace_product.sync_detailed("ink", client=client, body=ProductReplace(name="Red ink")).status_code == 204
assert isinstance(record("ink").price, Unset)
assert (
    replace_products.sync_detailed(client=client, body=[ProductKeyed(id="lid", name="Lid"), ProductKeyed(id="cap", name="Hat")]).status_code
    == 204
)
assert (record("lid").name, record("cap").name) == ("Lid", "Hat")

# Content.
assert upload_product_photo.sync_detailed("ink", client=client, body=File(BytesIO(b"\xff\xd8photo"))).status_code == 204
photo = download_product_photo.sync("ink", client=client)
assert isinstance(photo, File) and photo.payload.read() == b"\xff\xd8photo"
shown = record("ink").photo
assert isinstance(shown, Blob) and shown.content_type == "application/octet-stream" and shown.size == 7, shown
kept = replace_product.sync_detailed("ink", client=client, body=ProductReplace(name="Ink", photo=shown))
assert kept.status_code == 204 and isinstance(record("ink").photo, Blob), "what was answered can be put back"

# Another database, keys that are numbers.
assert create_order.sync(client=client, body=OrderCreate(number=7, text="two pens")) == 7
assert get_order.sync(7, client=client) == Order(number=7, text="two pens")

# Faults.
missing = get_product.sync("none", client=client)
assert isinstance(missing, Problem) and (missing.status, missing.code) == (404, "NOT_FOUND"), missing
again = create_product.sync(client=client, body=ProductCreate(id="ink", name="Ink"))
assert isinstance(again, Problem) and again.status == 409, again
late = delete_product.sync_detailed("ink", client=client, if_match='"AAAAAAAAAAA"')
assert late.status_code == HTTPStatus.PRECONDITION_FAILED and isinstance(late.parsed, Problem), late
stranger = get_product.sync("ink", client=Client(base_url=URL))
assert isinstance(stranger, Problem) and stranger.status == 401, stranger
bad = create_order.sync(client=client, body=OrderCreate(number=2**40, text=""))
assert isinstance(bad, Problem) and bad.status == 400 and not isinstance(bad.errors, Unset), bad

# Delete.
assert delete_product.sync_detailed("ink", client=client).status_code == 204
assert isinstance(get_product.sync("ink", client=client), Problem)
deleted = delete_products.sync_detailed(client=client, name="Hat")
assert (deleted.status_code, deleted.headers["X-Deleted-Count"]) == (204, "1")
