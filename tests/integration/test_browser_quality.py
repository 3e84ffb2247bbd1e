"""Every page in Chromium, light, dark, at 1280 and 360 pixels and at 200 %: axe-core finds nothing, nothing is wider than the window, controls have borders
that are seen; and the pictures of docs/console.md, which are those of these pages.

SCREENSHOTS=1 pytest -n0 tests/integration/test_browser_quality.py      takes the pictures anew
"""

from __future__ import annotations

import base64
import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from svc.console.places import PLACES
from tests.integration.conftest import Process
from tests.support.axe import emulate, faint_borders, source, too_wide, violations
from tests.support.chromium import CHROMIUM, Page, open_page
from tests.support.npm import node_packages
from tests.support.workshop import HOSTILE, check_page, fill, log_in, make_application

pytestmark = [pytest.mark.programs, pytest.mark.skipif(CHROMIUM is None, reason="Chromium is not installed")]

PICTURES = Path(__file__).parents[2] / "docs" / "console"
WIDE = "type Wide @table @export {\n id: ID @primaryKey\n" + "".join(f" column{n:02}WithALongName: String\n" for n in range(59)) + "}\n"
WIDE += "type Empty @table @export { id: ID @primaryKey }\n"
DATA = {
    "home": "/_pages/",
    "table": "/Tool/",
    "query": "/Tool/?kind==POWER&price=gt=100&sort(-price)",
    "facet": "/Tool/?facet(kind)",
    "group": "/Tool/?group(kind,count(),avg(price))",
    "no row": "/Tool/?name==nobody",
    "empty table": "/Empty/",
    "60 columns": "/Wide/",
    "attributes": "/Tool",
    "record": "/Tool/t0001",
    "wide record": "/Wide/1",
    "related": "/Maker/m1",
    "member": "/Tool/t0001/size",
    "new": "/Tool/?_view=new",
    "edit": "/Tool/t0001?_view=edit",
    "delete": "/Tool/t0001?_view=delete",
    "history": "/Tool/t0001?_view=history",
    "import": "/Tool/?_view=import",
    "pick": "/Maker/?_view=pick",
    "sql": "/sql",
    "fault in a query": "/Tool/?price=gt=",
    "nothing": "/nosuch",
    "login": "/login",
    "logout": "/logout",
}
CONSOLE = [
    *(place.path for place in PLACES),
    "login",
    "nosuch",
    "users/admin",
    "users?do=add",
    "users?do=rights&who=ann&on=data.Loan",
    "users/ann?do=drop",
    "roles/member",
    "roles/member?do=json",
    "roles?do=add",
    "accounts/ann",
    "keys?do=create",
    "databases/data",
    "databases/data/Tool",
    "databases/data/Tool?do=drop",
    "databases/system/hdb_user",
    "backups?database=data",
    "backups?database=data&delete=1",
    "jobs?from=2020-01-01",
    "instances/restart",
    "charts?range=24h",
    "applications/shop",
    "applications/shop?file=config.yaml",
    "applications/shop/drop",
    "applications/shop/deploy",
    "applications?do=add",
    "applications?do=deploy",
    "configuration?q=port",
    "configuration/http.port",
    "certificates?do=add",
    "ssh-keys?do=add",
    "audit?database=data&table=Tool",
    "logs?follow=yes",
    "logs?level=nosuch",
    "operations/search_by_conditions",
    "operations/drop_table",
]
READY = "document.readyState == 'complete'"
DROP = """(() => {
  const transfer = new DataTransfer();
  transfer.items.add(new File([TEXT], "tools.csv", {type: "text/csv"}));
  document.querySelector("input[type=file]").files = transfer.files;
  document.querySelector("form.import button").click();
})()"""


@pytest.fixture(autouse=True)
def no_leaks() -> Iterator[None]:
    """Not asked between these tests: the browser, which they share, keeps its connections as it likes."""
    yield


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Process]:
    folder = tmp_path_factory.mktemp("quality")
    application = make_application(folder / "workshop")
    (application / "wide.graphql").write_text(WIDE)
    process = Process(folder / "root", application).start()
    with process.client() as client:
        fill(client)
        wide = {f"column{n:02}WithALongName": f"value {n} " * (n % 7) + "w" * 60 * (n % 3) for n in range(59)}
        assert client.put("/Wide/", json=[{"id": str(n), **wide} for n in range(20)]).status_code == 204
    rights = {"read": True, "insert": True, "update": True, "delete": False, "attribute_permissions": []}
    for operation, fields in (
        ("add_role", {"role": "member", "permission": {"data": {"tables": {"Tool": rights}}}}),
        ("add_user", {"username": "ann", "password": "a-password-of-ann", "role": "member", "active": True}),
        ("add_component", {"project": "shop"}),
        ("create_backup", {"database": "data"}),
    ):
        answer = process.operate(operation, **fields)
        assert answer.status_code == 200, answer.text
    yield process
    assert process.stop() == 0, process.output()


@pytest.fixture(scope="module")
def page(server: Process, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Page]:
    with open_page(tmp_path_factory.mktemp("chromium")) as opened:
        opened.call("Emulation.setScrollbarsHidden", hidden=True)
        log_in(opened, server)
        yield opened


@pytest.fixture(scope="module")
def script(tmp_path_factory: pytest.TempPathFactory) -> str:
    return source(node_packages(tmp_path_factory))


def faults(page: Page, script: str) -> dict[str, Any]:
    """What is wrong with the page that is open, by how it is looked at."""
    found: dict[str, Any] = {}
    emulate(page)
    found["light"] = violations(page, script) + faint_borders(page)
    emulate(page, dark=True)
    found["dark"] = violations(page, script, rules=["color-contrast", "link-in-text-block"]) + faint_borders(page)
    for name, width, scale in (("telephone", 360, 1), ("200 %", 1280, 2)):
        emulate(page, width=width, scale=scale, reduced=True)
        found[name] = too_wide(page)
    emulate(page)
    return {name: each for name, each in found.items() if each}


def check(found: dict[str, dict[str, Any]]) -> None:
    wrong = {name: each for name, each in found.items() if each}
    assert wrong == {}, json.dumps(wrong, indent=1)


def test_pages_of_the_application_port(server: Process, page: Page, script: str) -> None:
    found = {}
    for name, path in DATA.items():
        page.open(server.url + path)
        found[name] = faults(page, script)
    check(found)
    check_page(page, server)


def test_pages_of_the_console(server: Process, page: Page, script: str) -> None:
    found = {}
    for path in CONSOLE:
        page.open(f"{server.operations_url}/console/{path}")
        found[path] = faults(page, script)
    check(found)
    check_page(page, server)


def test_pages_that_forms_lead_to(server: Process, page: Page, script: str) -> None:
    """Refused forms, answers, and what was changed by somebody else."""
    base, console = server.url, f"{server.operations_url}/console"
    found = {}
    steps: dict[str, tuple[str, Callable[[], object], str]] = {
        "refused login": (f"{base}/login", lambda: send(page, "form.login", username="nobody", password="wrong"), "[role=alert]"),
        "refused edit": (f"{base}/Tool/t0002?_view=edit", lambda: send(page, "form.record", f_price="dear"), "#faults"),
        "conflict": (f"{base}/Tool/t0004?_view=edit", lambda: change(server, page), "table.differences"),
        "import": (f"{base}/Tool/?_view=import", lambda: page.evaluate(DROP.replace("TEXT", json.dumps(IMPORTED))), "[name=column0]"),
        "ended import": ("", lambda: page.click("form.import[method=post] button.primary"), "#ended"),
        "answer": (f"{console}/operations/describe_table?table=Tool", lambda: send(page, "form.statement"), "#result"),
        "rows": (f"{console}/operations/search_by_id?table=Tool&ids=[%22t0001%22]", lambda: send(page, "form.statement"), "#result"),
        "refused operation": (f"{console}/operations/describe_table?table=nosuch", lambda: send(page, "form.statement"), "#fault"),
        "rows of SQL": (f"{console}/sql?sql=SELECT+*+FROM+data.Tool+LIMIT+5", lambda: send(page, "form.statement"), "#result"),
        "fault in SQL": (f"{console}/sql?sql=SELECT+FROM", lambda: send(page, "form.statement"), "#fault"),
        "refused user": (
            f"{console}/users?do=add",
            lambda: send(page, "form.login", username="admin", password="some-password", again="some-password"),
            "#fault",
        ),
        "refused setting": (f"{console}/configuration/http.port", lambda: send(page, "form.entry", field__http_port="many"), "#fault"),
    }
    for name, (address, act, sign) in steps.items():
        if address:
            page.open(address)
        page.evaluate("document.body.dataset.before = 'yes'; true")
        act()
        page.until(f"!document.body?.dataset.before && !!document.querySelector({json.dumps(sign)}) && {READY}")
        found[name] = faults(page, script)
    check(found)
    page.problems[:] = [each for each in page.problems if not each.startswith(_UNSAVED)]
    check_page(page, server)


_UNSAVED = "Blocked attempt to show a 'beforeunload' confirmation"  # a form was left that nobody has touched: Chromium does not ask then
IMPORTED = f'id,name,price,remark\nnew1,"{HOSTILE.replace(chr(34), chr(34) * 2)}",2.5,=1+1\nnew2,Plain,cheap,\n'


def send(page: Page, form: str, **fields: str) -> None:
    """Fill in fields, by name or id, and send the form. `field__a_b`: the field with the id `field-a.b`."""
    for name, value in fields.items():
        id_ = name.replace("__", "-", 1).replace("_", ".") if "__" in name else name.replace("_", "-", 1)
        page.evaluate(
            f"(document.querySelector({json.dumps(form)}).elements[{json.dumps(name)}]"
            f" ?? document.getElementById({json.dumps(id_)})).value = {json.dumps(value)}"
        )
    page.click_on(f"document.querySelector({json.dumps(form)}).querySelector('button.primary, button')")


def change(server: Process, page: Page) -> None:
    """Somebody else, and then the page that is open."""
    with server.client() as client:
        assert client.patch("/Tool/t0004", json={"name": HOSTILE, "stock": 99}).status_code == 204
    send(page, "form.record", f_name="Mine")


def test_focus_is_seen_and_the_menu_is_folded(server: Process, page: Page) -> None:
    """At 400 pixels the heading stands above the fold; at 1280 the rows of a table do."""
    emulate(page, width=400)
    page.open(f"{server.operations_url}/console/users")
    assert page.evaluate("document.querySelector('table').getBoundingClientRect().top") < 450
    assert not page.evaluate(
        "document.querySelector('nav.places a').checkVisibility({contentVisibilityAuto: true, checkVisibilityCSS: true})"
    )
    page.click("nav.places summary")
    page.until("document.querySelector('nav.places a').checkVisibility()")
    emulate(page)
    page.open(f"{server.url}/Tool/")
    assert page.evaluate("document.querySelectorAll('tbody tr')[9].getBoundingClientRect().bottom < innerHeight")
    for _ in range(20):
        page.press("Tab")
        focused = "document.activeElement"
        seen = page.evaluate(f"[{focused}.outerHTML.slice(0, 200), getComputedStyle({focused}).outlineStyle, {focused}.checkVisibility()]")
        assert seen[1:] == ["solid", True], seen
    check_page(page, server)


SHOWN = {
    "overview": ("/console/", "h1, h2, th"),
    "charts": ("/console/charts", "h1, nav.choice a"),
    "roles": ("/console/roles/member", "h1, th[scope=col], legend, label, main button, summary"),
    "operations": ("/console/operations/search_by_conditions?database=data&table=Tool", "h1, label, main button, summary"),
    "table": ("/Tool/?kind==POWER&price=gt=100&sort(-price)", "h1, th[scope=col], main button, summary"),
    "edit": ("/Tool/t0001?_view=edit", "h1, label, main button"),
}
"""The pages of which there are pictures, and the elements whose texts are kept: those that are the same on every machine."""
SCREENS = {"wide": 1280, "narrow": 400}
_TEXTS = """[...document.querySelectorAll(SELECTOR)].filter((each) => each.checkVisibility())
  .map((each) => each.textContent.replace(/[0-9]+/g, '0').replace(/\\s+/g, ' ').trim()).filter(Boolean)"""


def test_the_pictures_show_what_there_is(server: Process, page: Page) -> None:
    """What stands on the pages of docs/console.md, numbers apart, is what stood there when the pictures were taken."""
    takes = bool(os.environ.get("SCREENSHOTS"))
    texts: dict[str, list[str]] = {}
    for name, (path, selector) in SHOWN.items():
        emulate(page)
        page.open((server.operations_url if path.startswith("/console/") else server.url) + path)
        texts[name] = page.evaluate(_TEXTS.replace("SELECTOR", json.dumps(selector)))
        if takes:
            take(page, name)
    emulate(page)
    record = PICTURES / "texts.json"
    if takes:
        record.write_text(json.dumps(texts, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    assert json.loads(record.read_text("utf-8")) == texts, (
        "the pages have changed: SCREENSHOTS=1 pytest -n0 tests/integration/test_browser_quality.py"
    )
    assert {path.name for path in PICTURES.glob("*.webp")} == {
        f"{name}-{screen}-{shade}.webp" for name in SHOWN for screen in SCREENS for shade in ("light", "dark")
    }
    check_page(page, server)


def take(page: Page, name: str) -> None:
    """Pictures of the page that is open."""
    if name == "charts":
        page.until("document.querySelectorAll('.plot .line').length > 6")
    for screen, width in SCREENS.items():
        for dark in (False, True):
            emulate(page, width=width, height=800, dark=dark)
            picture = page.call("Page.captureScreenshot", format="webp", quality=70)["data"]
            (PICTURES / f"{name}-{screen}-{'dark' if dark else 'light'}.webp").write_bytes(base64.b64decode(picture))
