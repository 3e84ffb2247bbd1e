"""A browser without scripts on both ports of an instance of tests, which goes wherever pages lead, and sends the forms that they offer."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from html.parser import HTMLParser
from urllib.parse import parse_qsl, urldefrag, urlencode, urljoin, urlsplit

from svc.testing.answer import Answer
from svc.testing.instance import Instance
from svc.testing.requests import PEER, Cookies, Wire
from svc.testing.wire import AnswerReader, MemorySocket
from tests.support.pages import BROWSER

PORTS = {"localhost:9926": "application", "localhost:9925": "operations"}
APPLICATION, OPERATIONS = (f"http://{host}" for host in PORTS)
URLENCODED = "application/x-www-form-urlencoded"
FILE = ("a.csv", "id,name\nnew1,One\n")
"""What is chosen where a form wants a file."""


class PortWire(Wire):
    """One request on a connection of its own, to one of the ports."""

    def __init__(self, instance: Instance, method: str, target: str, port: str) -> None:
        self.instance = instance
        self.reader = AnswerReader(instance.loop, method)
        self.sock = MemorySocket(instance.loop)
        self.sock.client = self.reader
        instance.sockets.add(self.sock)
        ports = instance.server.operations_port if port == "operations" else instance.server.application_port
        ports.connections.accept(self.sock, PEER)  # type: ignore[arg-type]  # it has the interface of one


@dataclass
class Form:
    """`page`: the address that shows it. `fields`: as a browser sends them if nothing is entered. `buttons`: (name, value), without a name ("", "")."""

    page: str
    method: str
    action: str
    fields: list[tuple[str, str]] = field(default_factory=list)
    buttons: list[tuple[str, str]] = field(default_factory=list)
    files: list[str] = field(default_factory=list)
    is_multipart: bool = False

    @property
    def names(self) -> frozenset[str]:
        return frozenset([name for name, _ in self.fields] + self.files)

    def value(self, name: str) -> str | None:
        return next((value for key, value in self.fields if key == name), None)


class Offered(HTMLParser):
    """What a page offers: links and forms with their defaults."""

    def __init__(self, page: str, text: str) -> None:
        super().__init__()
        self.links: list[str] = []
        self.forms: list[Form] = []
        self.text = ""
        self._page = page
        self._form: Form | None = None
        self._elsewhere: dict[str, Form] = {}
        self._area: tuple[Form, str] | None = None
        self._select: list[tuple[str, bool]] = []
        self._selected: tuple[Form, str] | None = None
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        if tag == "a" and "href" in given:
            self.links.append(urldefrag(urljoin(self._page, given["href"])).url)
        elif tag == "form":
            action = urljoin(self._page, given.get("action") or self._page)
            self._form = Form(self._page, given.get("method", "get").upper(), action, is_multipart="multipart" in given.get("enctype", ""))
            if "id" in given:
                self._elsewhere[given["id"]] = self._form
            if self._form.method != "DIALOG":
                self.forms.append(self._form)
        form = self._elsewhere.get(given["form"]) if "form" in given else self._form
        if form is None or "disabled" in given:
            return
        name = given.get("name", "")
        if tag == "input" and name:
            kind = given.get("type", "text")
            if kind == "file":
                form.files.append(name)
            elif kind not in ("checkbox", "radio", "submit", "button") or (kind in ("checkbox", "radio") and "checked" in given):
                form.fields.append((name, given.get("value", "on" if kind in ("checkbox", "radio") else "")))
        elif tag == "button" and given.get("type", "submit") == "submit":
            form.buttons.append((name, given.get("value", "")))
        elif tag == "textarea" and name:
            form.fields.append((name, ""))
            self._area = form, name
        elif tag == "select" and name:
            self._selected, self._select = (form, name), []
        elif tag == "option":
            self._select.append((given.get("value", ""), "selected" in given))

    def handle_endtag(self, tag: str) -> None:
        if tag == "form":
            self._form = None
        elif tag == "textarea":
            self._area = None
        elif tag == "select" and self._selected is not None:
            form, name = self._selected
            values = [value for value, is_chosen in self._select if is_chosen] or [value for value, _ in self._select][:1]
            form.fields += [(name, value) for value in values]
            self._selected = None

    def handle_data(self, data: str) -> None:
        self.text += data
        if self._area is not None:
            form, name = self._area
            before = form.fields.pop()[1]
            form.fields.append((name, before + data if before else data.removeprefix("\n")))


class Browser:
    """Of one person. `cookies`: sent to both ports, which are one host."""

    def __init__(self, instance: Instance, user: str | None = None, password: str = "password") -> None:
        self._instance = instance
        self.user = user
        self.cookies = Cookies(instance.clock.wall)
        if user is not None:
            answer = self.post(f"{OPERATIONS}/console/login", {"_username": user, "_password": password})
            assert answer.status == 303, answer

    def ask(self, method: str, address: str, body: bytes = b"", fields: Mapping[str, str] | None = None) -> Answer:
        parts = urlsplit(address)
        target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        header = {"Host": parts.netloc, "Accept": BROWSER, "Accept-Encoding": "identity"}
        if method in ("POST", "PUT", "PATCH", "DELETE"):
            header |= {"Origin": f"{parts.scheme}://{parts.netloc}", "Sec-Fetch-Site": "same-origin", "Content-Length": str(len(body))}
        if cookies := self.cookies.header(parts.path):
            header["Cookie"] = cookies
        header |= fields or {}
        wire = PortWire(self._instance, method, target, PORTS[parts.netloc])
        lines = [f"{method} {target} HTTP/1.1", *(f"{name}: {value}" for name, value in header.items() if value)]
        wire.send(("\r\n".join(lines) + "\r\n\r\n").encode("latin-1") + body)
        try:
            self._instance.wait_for(wire.reader.end, f"{method} {address}")
            status, pairs = wire.reader.head.result()
            content = wire.reader.end.result()
        finally:
            wire.hang_up()
            self._instance.rest()
        self.cookies.receive(pairs, parts.path)
        return Answer(f"{method} {address} of {self.user}", status, pairs, content)

    def get(self, address: str, **fields: str) -> Answer:
        return self.ask("GET", address, fields={name.replace("_", "-"): value for name, value in fields.items()})

    def post(self, address: str, form: Mapping[str, str] | list[tuple[str, str]], **fields: str) -> Answer:
        body = urlencode(list(form.items()) if isinstance(form, Mapping) else form).encode()
        return self.ask(
            "POST", address, body, {"Content-Type": URLENCODED, **{name.replace("_", "-"): each for name, each in fields.items()}}
        )

    def send(self, form: Form, button: tuple[str, str] | None = None, **fields: str) -> Answer:
        """Send a form as it is shown. `button`: what it is sent with. `fields`: of the header."""
        pairs = form.fields + ([button] if button is not None and button[0] else [])
        if form.method == "GET":
            return self.get(f"{form.action.partition('?')[0]}?{urlencode(pairs)}", **fields)
        if not form.is_multipart:
            return self.post(form.action, pairs, **fields)
        given = {name.replace("_", "-"): each for name, each in fields.items()}
        return self.ask("POST", form.action, multipart(pairs, form.files), {"Content-Type": "multipart/form-data; boundary=edge", **given})


def multipart(pairs: list[tuple[str, str]], files: list[str]) -> bytes:
    parts = [f'--edge\r\nContent-Disposition: form-data; name="{name}"\r\n\r\n{value}\r\n' for name, value in pairs]
    name, text = FILE
    parts += [
        f'--edge\r\nContent-Disposition: form-data; name="{each}"; filename="{name}"\r\nContent-Type: text/csv\r\n\r\n{text}\r\n'
        for each in files
    ]
    return ("".join(parts) + "--edge--\r\n").encode()


@dataclass
class Visit:
    """What was found at an address."""

    address: str
    answer: Answer
    offered: Offered | None


KEYED = ("configuration", "operations", "users", "roles", "keys", "sessions", "accounts", "jobs")
"""Places of the console whose next segment is the name of one of many."""


def shape_of(address: str) -> tuple[str, frozenset[str]]:
    """Addresses of one shape lead to pages of one kind: their paths differ in keys and names, their queries in values."""
    parts = urlsplit(address)
    steps = parts.path.split("/")
    if steps[1] != "console":
        steps = [*steps[:2], *["*" for step in steps[2:] if step]]
    elif len(steps) > 3 and steps[2] in KEYED:
        steps[3] = "*"
    elif len(steps) > 4 and steps[2:4] == ["databases", "system"]:
        steps[4] = "*"
    given = parse_qsl(parts.query, keep_blank_values=True)
    if steps[2:3] == ["operations"] and len(steps) > 3:
        given = []  # a form that is filled in
    if steps[1] != "console" and not parts.query.startswith("_view="):
        given = [("", "")] if parts.query else []  # any query
    fields = [f"{name}={value}" if name in ("_view", "do", "database") else name for name, value in given]
    return f"{parts.netloc}{'/'.join(steps)}", frozenset(fields)


def crawl(browser: Browser, starts: list[str], most: int = 400, each: int = 2) -> Iterator[Visit]:
    """Every page that is linked from `starts`, `each` of a shape. Raises AssertionError if there are more than `most`."""
    waiting, known, shapes = list(starts), set(starts), dict[tuple[str, frozenset[str]], int]()
    visits = 0
    while waiting:
        address = waiting.pop(0)
        shape = shape_of(address)
        shapes[shape] = shapes.get(shape, 0) + 1
        if shapes[shape] > each:
            continue
        visits += 1
        assert visits <= most, f"the pages have no end: {address}"
        answer = browser.get(address)
        offered = None
        if answer.content_type == "text/html" and answer.content:
            offered = Offered(address, answer.decoded_content.decode())
            for link in offered.links:
                if urlsplit(link).netloc in PORTS and link not in known:
                    known.add(link)
                    waiting.append(link)
        elif 300 <= answer.status < 400:
            link = urljoin(address, answer.headers["location"])
            assert urlsplit(link).netloc in PORTS, answer
            if link not in known:
                known.add(link)
                waiting.append(link)
        yield Visit(address, answer, offered)
