"""Whatever a browser of ill will asks of the pages: an answer that is a page, never a defect, never markup from a value (spec: http §7.8, console §1).

A walk: it starts at the places and views there are, follows the links and fills in the forms of the pages it gets, and changes addresses, names and values
at random on the way. The seeds are fixed; the profile `nightly` takes new ones, and more.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from random import Random, SystemRandom
from urllib.parse import quote, unquote, urlencode, urljoin

import pytest

from svc.console.places import PLACES
from svc.operations.registry import all_operations
from svc.pages.views import VIEWS
from tests.support.application import Application, application
from tests.support.console import ConsoleSite
from tests.support.page_operations import InlineWorker, with_operations
from tests.support.pages import BROWSER, Parsed
from tests.support.profile import NIGHTLY, examples
from tests.support.sent_forms import PageForm, forms_of

HOSTILE = "\"'><img src=x onerror=alert(1)></td></textarea></script>\u202e"
NAME = HOSTILE[:32]
VALUES = [
    "", " ", "0", "1", "-1", "9" * 30, "1e400", "NaN", "null", "true", "on", "=", "a", "admin", "super_user", "Seat", "1.5", "{}", "[]", "[[[[", '{"a":',
    '{"operation": "describe_all"}', '{"super_user": true}', '[1,[2,{"x":null}]]', "2026-01-01", "2026-13-45T99:99", "1970-01-01T00:00:00Z",
    "-271821-01-01", "..", ".", "../../etc/passwd", "/", "//evil.example", "a/b", "%", "%zz", "%2F", "\x00", "\x7f", "\r\nX-A: b", "\u202e", "\U0001f600",
    "é" * 300, HOSTILE, "x" * 5000, "SELECT * FROM data.Seat", "SELECT", "?_view=edit", "javascript:alert(1)", "é", "\u2028", "a\nb\nc", "*", "\\", "'", '"',
    "&amp;", "{{ 7*7 }}", "{% x %}",
]  # fmt: skip
SEGMENTS = [
    "",
    "a",
    "0",
    "..",
    ".",
    "%2e%2e",
    "%2F",
    "%00",
    "%zz",
    "%ff",
    "%F0%9F%98%80",
    quote(HOSTILE, safe=""),
    "k" * 700,
    "-",
    "admin",
    "data",
    "Seat",
    "~",
    "a;b",
]
TYPES = ["text/plain", "application/json", "image/png", "text/html", "x", "", "text/csv; charset=x", "multipart/form-data", 'a/b"c']
FILES = [
    b"", b"id,stock\n1,2\n", b"\xff\xfe", b"\x00" * 300, b'[{"id": "1"}]', b'{"id": 1}\n{"id"', b"a," * 500, b"PK\x03\x04", b"[" * 5000, b"\x1f\x8b\x08",
    b"<svg onload=alert(1)>",
]  # fmt: skip
NAMES = [
    "_view", "q", "at", "version", "upload", "job", "step", "do", "search", "start", "from", "until", "id", "name", "note", "range", "action", "format",
    "match", "_shown", "_pick", "_picked", "_for", "_search", "_again", "limit", "filter", "key", "who", "on", "text", "to", HOSTILE, "x" * 300, "",
]  # fmt: skip
STAYS = {"restart", "restart_service", "shutdown", "deploy_component", "install_node_modules", "add_component", "package_component"}
"""Operations that reach for the network or end the process."""
MOST_BYTES = 4 << 20
STEPS = 200

Ask = Callable[[str, str, bytes, str], tuple[int, bytes, str, str]]
"""(method, address, body, its type) -> (status, body, media type, where it leads)."""


class Walk:
    """`token`: what a form of this caller has to hold."""

    def __init__(self, ask: Ask, starts: list[str], token: str, seed: int) -> None:
        self._ask = ask
        self._starts = starts
        self._addresses: list[str] = []
        self._forms: list[tuple[str, PageForm]] = []
        self._token = token
        self._seed = seed
        self._random = Random(seed)

    def step(self) -> None:
        random = self._random
        if self._forms and random.random() < 0.55:
            address, form = random.choice(self._forms)
            if form.method.lower() == "post" and random.random() < 0.9:
                body, kind = self._body(form)
                self._send("POST", urljoin(address, form.action), body, kind)
                return
            fields = [self._changed(pair) for pair in form.fields]
            self._send("GET", f"{urljoin(address, form.action).partition('?')[0]}?{encoded(fields)}", b"", "")
            return
        address = random.choice(self._addresses if self._addresses and random.random() < 0.6 else self._starts)
        if random.random() < 0.1:
            fields = [(random.choice(NAMES), random.choice(VALUES)) for _ in range(random.randrange(6))]
            self._send("POST", address, *self._encoded([*fields, ("_token", self._token)], [], random.random() < 0.5))
            return
        self._send("GET", self._bent(address), b"", "")

    def _bent(self, address: str) -> str:
        """An address with other fields or further segments."""
        random = self._random
        path, _, query = address.partition("?")
        if random.random() < 0.3:
            path = path.rstrip("/") + "/" + "/".join(random.choice(SEGMENTS) for _ in range(random.randrange(1, 4)))
        if random.random() < 0.6:
            fields = [pair.partition("=")[::2] for pair in query.split("&") if pair]
            pairs = [
                self._changed((unquote(name), unquote(value))) for name, _, value in (("", "", ""), *((n, "=", v) for n, v in fields))
            ][1:]
            pairs += [(random.choice(NAMES), random.choice(VALUES)) for _ in range(random.randrange(3))]
            query = encoded(pairs)
        return path + (f"?{query}" if query else "")

    def _changed(self, pair: tuple[str, str]) -> tuple[str, str]:
        random, (name, value) = self._random, pair
        chance = random.random()
        if chance < 0.3:
            return name, random.choice(VALUES)
        if chance < 0.4 and value:
            at = random.randrange(len(value))
            return name, value[:at] + random.choice(VALUES) + value[at + random.randrange(2) :]
        if chance < 0.43 and value and len(value) < 5000:
            return name, value * 20
        return pair

    def _body(self, form: PageForm) -> tuple[bytes, str]:
        random = self._random
        fields = [*form.fields, *random.sample(form.boxes, min(len(form.boxes), random.randrange(3)))]
        if form.buttons and random.random() < 0.8:
            fields.append(random.choice(form.buttons))
        for number in random.sample(range(len(fields)), min(len(fields), random.randrange(4))):
            fields[number] = self._changed(fields[number])
        chance = random.random()
        if chance < 0.15 and fields:
            fields.pop(random.randrange(len(fields)))
        elif chance < 0.25 and fields:
            fields.append((random.choice(fields)[0], random.choice(VALUES)))
        elif chance < 0.35:
            fields.append((random.choice(NAMES), random.choice(VALUES)))
        elif chance < 0.42:
            fields += [pair for pair in random.choice(self._forms)[1].fields if pair[0] != "_token"]
        elif chance < 0.45:
            fields = [pair for pair in fields if pair[0] == "_token"]
        if random.random() < 0.97:
            fields = [(name, self._token if name == "_token" else value) for name, value in fields]
        return self._encoded(fields, form.files, form.encoding.startswith("multipart") != (random.random() < 0.1))

    def _encoded(self, fields: list[tuple[str, str]], files: list[str], is_multipart: bool) -> tuple[bytes, str]:
        random = self._random
        if not is_multipart:
            return encoded(fields).encode(), "application/x-www-form-urlencoded"
        parts = [
            f'Content-Disposition: form-data; name="{quoted(name)}"\r\n\r\n{value}'.encode("utf-8", "replace") for name, value in fields
        ]
        for name in [*files, *random.sample(NAMES, random.randrange(2)), *(each[0] for each in fields[: random.randrange(2)])]:
            head = f'Content-Disposition: form-data; name="{quoted(name)}"; filename="{quoted(random.choice(VALUES))}"\r\n'
            head += f"Content-Type: {random.choice(TYPES)}\r\n\r\n"
            parts.append(head.encode("utf-8", "replace") + random.choice(FILES))
        random.shuffle(parts)
        body = b"".join(b"--b\r\n" + part + b"\r\n" for part in parts) + b"--b--\r\n"
        if random.random() < 0.05:
            body = body[: random.randrange(len(body))]
        return body, "multipart/form-data; boundary=b"

    def _send(self, method: str, address: str, body: bytes, kind: str) -> None:
        note = f"seed {self._seed}: {method} {address[:500]} {kind} {body[:3000]!r}"
        try:
            status, content, media_type, location = self._ask(method, address, body, kind)
        except Exception as error:
            error.add_note(note)
            raise
        assert status < 500 or status in (501, 503, 507), (note, content[-2000:])
        assert len(content) <= MOST_BYTES, (note, len(content))
        assert "\n" not in location, note
        if location and location.startswith(("./", "../", "?", "/")) and not location.startswith("//"):
            self._keep(urljoin(address, location))
        if not media_type.startswith("text/html"):
            return
        try:
            page = Parsed(content)
        except AssertionError as error:
            error.add_note(note)
            raise
        assert "onerror" not in {name for _, attributes in page.elements for name in attributes}
        for target in page.links.values():
            if target.startswith(("./", "../", "?")):
                self._keep(urljoin(address, target))
        for form in forms_of(content):
            if not any(name in form.action for name in ("logout", "login")) and sum(len(value) for _, value in form.fields) < 200_000:
                self._forms.append((address, form))
        del self._forms[:-150]

    def _keep(self, address: str) -> None:
        if len(address) < 4000 and address.startswith("/") and not re.match("/(console/logout|docs|openapi)", address):
            self._addresses.append(address)
            del self._addresses[:-300]


def encoded(fields: list[tuple[str, str]]) -> str:
    return urlencode([(name.encode("utf-8", "replace"), value.encode("utf-8", "replace")) for name, value in fields])


def quoted(text: str) -> str:
    return text.replace('"', "%22").replace("\r", "%0D").replace("\n", "%0A")


def seed_of(number: int) -> int:
    return SystemRandom().randrange(1 << 30) if NIGHTLY else number


# --- the console --------------------------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def console(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ConsoleSite]:
    site = ConsoleSite(tmp_path_factory.mktemp("console"))
    node = site.node
    node.run(
        "create_table",
        table="Seat",
        primary_key="id",
        attributes=[{"name": "id", "type": "ID"}, {"name": "stock", "type": "Int", "indexed": True}],
    )
    node.run("create_database", database="<b>")
    node.run("create_table", table=NAME, database="<b>", primary_key="<i>")
    node.run(
        "insert",
        table="Seat",
        records=[{"id": HOSTILE, NAME: HOSTILE, "stock": 1}, {"id": "..", "stock": None}, {"id": "a/b", "x": [1, {"y": HOSTILE}]}],
    )
    node.run("add_role", role="role", permission={"super_user": False, "data": {"tables": {}}})
    for name in (NAME, "..", "a/b", "ann"):
        node.run("add_user", username=name, password="secret", role="role", active=True)
    node.send({"operation": "create_key", "name": NAME, "user": "ann"}, node.admin)
    node.finished(node.run("csv_data_load", table="Seat", data="id,stock\n1,2\n"))
    yield site
    site.close()


@pytest.mark.parametrize("number", range(examples(8)))
def test_the_console_answers_with_pages(console: ConsoleSite, number: int) -> None:
    operations = [row.name for row in all_operations() if row.name not in STAYS]
    starts = [
        "/",
        "/console/login",
        *(f"/console/{place.path}" for place in PLACES),
        *(f"/console/operations/{name}" for name in operations),
    ]

    def ask(method: str, address: str, body: bytes, kind: str) -> tuple[int, bytes, str, str]:
        if any(f"operations/{name}" in address or f'"{name}"'.encode() in body or f"%22{name}%22".encode() in body for name in STAYS):
            return 200, b"", "", ""
        answer = console.node.wait(lambda: console._answer(method, address, user, body, {"content-type": kind} if kind else {}))
        kinds = [value for name, value in answer.headers if name.lower() == "content-type"]
        return answer.status, answer.body, kinds[0] if kinds else "", answer.location

    user = "admin" if number % 4 else console.node.directory.named("a/b")
    token = console.get("/console/password", user).page.find("input", name="_token")["value"]
    walk = Walk(ask, starts, token, seed_of(number))
    for _ in range(STEPS):
        walk.step()


# --- the application port -------------------------------------------------------------------------------------------------------------------

SCHEMA = """
type Seat @table @export { id: ID @primaryKey stock: Int price: Float @indexed tags: [String] place: Any since: Date image: Bytes photo: Blob
  big: BigInt on: Boolean  showId: ID @indexed show: Show @relationship(from: "showId") }
type Show @table @export { id: ID @primaryKey title: String @indexed seats: [Seat] @relationship(to: "showId") }
type Number @table @export { id: Long @primaryKey label: String! }
type Pair @table @export @sealed { a: ID @primaryKey b: [Int] }
"""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Application]:
    root = tmp_path_factory.mktemp("pages")
    with application(root, "", schema=SCHEMA) as made:
        node = with_operations(made, root)
        node.loads.is_open = True
        made.ask("PUT", "/Show/s1", {"title": HOSTILE})
        strange = {
            "stock": 1,
            "price": 1.5,
            "tags": [HOSTILE, None],
            "place": {HOSTILE: [HOSTILE, {"x": 1e300}]},
            "showId": "s1",
            NAME: HOSTILE,
            "big": 2**80,
        }
        for key in ("a", "..", HOSTILE, "a/b", "x.csv", "é"):
            assert made.ask("PUT", "/Seat/" + quote(key, safe="").replace(".", "%2E"), strange)[0] == 204
        made.ask("PUT", "/Number/5", {"label": HOSTILE})
        made.ask("PUT", "/Pair/p", {"b": [1, None]})
        yield made


@pytest.mark.parametrize("number", range(examples(8)))
def test_the_pages_of_tables_answer_with_pages(site: Application, number: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("svc.operations.load_sources.Worker", InlineWorker)
    keys = ["a", "%2E%2E", quote(HOSTILE, safe=""), "a%2Fb", "x.csv", "nothing"]
    starts = ["/", "/Seat/", "/Show/", "/Number/5", "/Number/", "/Pair/p", "/Pair/", "/Seat", *(f"/Seat/{key}" for key in keys)]
    starts += [
        f"/{path}?_view={view}" for path in ("Seat/", "Seat/a", "Number/5", "Pair/p", "Show/s1", "Seat/..", "Pair/") for view in VIEWS
    ]
    starts += [
        f"/Seat/?{query}" for query in ("limit(10,20)", "sort(-price)", "select(id,show{title})", "price=gt=1", "_open=1", "_filter=x")
    ]

    def ask(method: str, address: str, body: bytes, kind: str) -> tuple[int, bytes, str, str]:
        target = "".join(each if "!" <= each <= "~" else quote(each) for each in address)
        fields = {"Accept": BROWSER} | ({"Content-Type": kind} if kind else {})
        wire = site.node.connect()
        status, answered, content = wire.ask(method, target, body, fields)
        wire.send(b"")
        errors, site.node.errors = site.node.errors, []
        assert errors == []
        return status, content, answered.get("content-type", ""), answered.get("location", "")

    _, _, shown = site.answer("GET", "/Seat/?_view=new", accept=BROWSER)
    token = Parsed(shown).find("input", name="_token")["value"]
    walk = Walk(ask, starts, token, seed_of(number))
    for _ in range(STEPS):
        walk.step()
