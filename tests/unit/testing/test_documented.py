"""The application of docs/applications.md, as its own tests would have it. (tests/integration/test_applications_page.py does what the page says.)"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import svc.testing
from svc.testing import Application
from tests.unit.testing.conftest import AppFactory

PAGE = Path(__file__).parents[3] / "docs" / "applications.md"
_FILE = re.compile(r"^\*\*shop/([\w./]+)\*\*(, at its end)?\n\n```\w+\n(.*?)^```$", re.DOTALL | re.MULTILINE)


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("documented") / "shop"
    directory.mkdir()
    for name, more, text in _FILE.findall(PAGE.read_text("utf-8")):
        with (directory / name).open("a" if more else "w", encoding="utf-8") as file:
            file.write(f"\n\n{text}" if more else text)
    return directory


@pytest.fixture
def shop(svc_app_factory: AppFactory, directory: Path) -> Application:
    shop = svc_app_factory(directory)
    shop.put("/Product/pen", {"name": "Pen", "price": 2.5, "stock": 2})
    return shop


def test_two_buyers_cannot_both_get_the_last_pen(shop: Application) -> None:
    shop.post("/Product/pen")
    buyers = [shop.send("POST", "/Product/pen") for _ in range(3)]
    assert sorted(buyer.answer().status for buyer in buyers) == [200, 409, 409]
    assert shop.get("/Product/pen").json["soldOut"] is True
    assert len(shop.tables.Sale.search({"conditions": [{"attribute": "productId", "value": "pen"}]})) == 2


def test_a_sale_that_fails_is_not_recorded(shop: Application) -> None:
    assert shop.post("/Product/nothing").status == 409
    assert shop.get("/Sale/?count()").json == {"count": 0}


def test_anybody_sees_the_report(shop: Application) -> None:
    shop.post("/Product/pen")
    assert shop.get("/Report", user=None).json == {"Pen": 2.5}


def test_ann_alone_changes_the_shelf(shop: Application) -> None:
    for name in ("ann", "bob"):
        shop.operation("add_user", username=name, password="blue-heron", role="clerk", active=True)
    assert shop.get("/Shelf/pen", user=None).status == 200
    assert [shop.patch("/Shelf/pen", {"stock": 9}, user=name).status for name in (None, "bob", "ann")] == [401, 403, 204]
    assert shop.delete("/Shelf/pen", user="ann").status == 403


def test_rates_are_asked_for_again_when_they_have_expired(shop: Application, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []
    monkeypatch.setattr(shop.module("resources"), "fetch", lambda address: asked.append(address) or {"rate": 1.0 + len(asked)})
    assert [shop.get("/Rate/EUR").json["rate"] for _ in range(3)] == [2.0] * 3
    shop.clock.advance(3601)
    assert shop.get("/Rate/EUR").json["rate"] == 3.0
    assert shop.get("/Rate/EUR", headers={"Cache-Control": "no-cache"}).json["rate"] == 4.0
    assert asked == ["http://localhost:8100/EUR.json"] * 3


def test_what_is_said_in_a_room_is_heard_there(shop: Application) -> None:
    ann, bob, other, reader = (
        shop.connect("/Chat/lobby"),
        shop.connect("/Chat/lobby"),
        shop.connect("/Chat/hall"),
        shop.events("/Chat/lobby"),
    )
    ann.send("hello")
    assert ann == bob == reader == [{"welcome": "lobby"}, {"said": "hello"}]
    assert other == [{"welcome": "hall"}]


def test_it_is_the_same_without_pytest(directory: Path) -> None:
    with svc.testing.app(directory) as shop:
        assert shop.get("/Product/pen").status == 404
