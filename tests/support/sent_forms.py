"""Forms of pages as a browser sends them: what they hold, and what a person has changed in them (HTML, 4.10.21 Form submission)."""

from __future__ import annotations

from html.parser import HTMLParser
from urllib.parse import urlencode


class PageForm:
    """`fields`: (name, value) of what the form sends, in its order, buttons apart. `files`: names of its file fields. `buttons`: (name, value)."""

    def __init__(self, attributes: dict[str, str]) -> None:
        self.action = attributes.get("action", "")
        self.method = attributes.get("method", "get")
        self.encoding = attributes.get("enctype", "application/x-www-form-urlencoded")
        self.fields: list[tuple[str, str]] = []
        self.files: list[str] = []
        self.buttons: list[tuple[str, str]] = []
        self.options: dict[str, list[str]] = {}
        self.boxes: list[tuple[str, str]] = []
        """Check boxes and radio buttons that are not chosen."""

    def __getitem__(self, name: str) -> str:
        return dict(self.fields)[name]

    def __contains__(self, name: str) -> bool:
        return name in dict(self.fields)

    def fill(self, name: str, value: str) -> None:
        """Raises AssertionError for what a browser could not send."""
        assert name in dict(self.fields), (name, self.fields)
        assert name not in self.options or value in self.options[name], (name, value, self.options[name])
        self.fields = [(each, value if each == name else was) for each, was in self.fields]

    def choose(self, name: str, value: str) -> None:
        """A check box or radio button."""
        assert (name, value) in self.boxes, (name, value, self.boxes)
        self.fields.append((name, value))

    def body(self, button: tuple[str, str] | None = None, files: dict[str, tuple[str, str, bytes]] | None = None) -> tuple[bytes, str]:
        """(body, its type). `files`: (file name, type, content) by field."""
        assert button is None or button in self.buttons, (button, self.buttons)
        pairs = [(name, _lines(value)) for name, value in [*self.fields, *([] if button is None else [button])]]
        if self.encoding != "multipart/form-data":
            return urlencode(pairs).encode(), self.encoding
        boundary = "----form-of-a-test"
        parts = [f'Content-Disposition: form-data; name="{name}"\r\n\r\n{value}'.encode() for name, value in pairs]
        for name in self.files:
            file, kind, content = (files or {}).get(name, ("", "application/octet-stream", b""))
            head = f'Content-Disposition: form-data; name="{name}"; filename="{file}"\r\nContent-Type: {kind}\r\n\r\n'
            parts.append(head.encode() + content)
        mark = f"--{boundary}".encode()
        return b"".join(mark + b"\r\n" + part + b"\r\n" for part in parts) + mark + b"--\r\n", f"multipart/form-data; boundary={boundary}"


class FormReader(HTMLParser):
    """The forms of a page."""

    def __init__(self, body: bytes) -> None:
        super().__init__()
        self.forms: list[PageForm] = []
        self._form: PageForm | None = None
        self._area: tuple[str, list[str]] | None = None
        self._select: tuple[str, list[str], list[str]] | None = None
        self.feed(body.decode())
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        attributes = {name: value or "" for name, value in attrs}
        if tag == "form":
            self._form = PageForm(attributes)
            self.forms.append(self._form)
        form = self._form
        if form is None:
            return
        name = attributes.get("name", "")
        if tag == "input" and name:
            kind = attributes.get("type", "text")
            if kind == "file":
                form.files.append(name)
            elif kind in ("checkbox", "radio"):
                pair = name, attributes.get("value", "on")
                (form.fields if "checked" in attributes else form.boxes).append(pair)
            else:
                value = attributes.get("value", "")
                form.fields.append((name, value if kind == "hidden" else value.replace("\r", "").replace("\n", "")))
        elif tag == "button" and name:
            form.buttons.append((name, attributes.get("value", "")))
        elif tag == "textarea":
            self._area = name, []
        elif tag == "select":
            self._select = name, [], []
        elif tag == "option" and self._select is not None:
            self._select[1].append(attributes["value"])
            if "selected" in attributes:
                self._select[2].append(attributes["value"])

    def handle_endtag(self, tag: str) -> None:
        if tag == "form":
            self._form = None
        elif tag == "textarea" and self._area is not None and self._form is not None:
            text = "".join(self._area[1])
            self._form.fields.append((self._area[0], text.removeprefix("\n")))
            self._area = None
        elif tag == "select" and self._select is not None and self._form is not None:
            name, options, selected = self._select
            self._form.options[name] = options
            if options:
                self._form.fields.append((name, (selected or options)[-1 if selected else 0]))
            self._select = None

    def handle_data(self, data: str) -> None:
        if self._area is not None:
            self._area[1].append(data)


def forms_of(body: bytes) -> list[PageForm]:
    """A browser reads CR and CRLF as LF before anything else."""
    return FormReader(body.replace(b"\r\n", b"\n").replace(b"\r", b"\n")).forms


def _lines(value: str) -> str:
    return value.replace("\r\n", "\n").replace("\r", "\n").replace("\n", "\r\n")
