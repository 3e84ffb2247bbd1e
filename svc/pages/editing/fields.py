"""A value of a record as the field of a form, and what was typed into it as a value again.

A form sends nothing but text, and a browser changes that on its way: line ends of a text area become CRLF. So a form says by a digest of each field what it
has shown, and a field with the same digest has not been touched, however its value would be written. What a text area cannot hold as it is (control
characters, mixed line ends) is shown as JSON.

Formats, by which the text of a field is read:

    text    as it is; line ends are LF, of `crlf` CRLF
    plain   by the declared type: numbers, dates
    lines   a list, one element a line
    choice  `=` and the value; `null`; `missing`
    json    JSON; nothing: missing
    file    an upload, of `bytes` its bytes alone
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from datetime import datetime
from hashlib import blake2b
from typing import Any

import msgspec

from svc.content.json_type import decode_json, encode_json
from svc.content.values import is_blob
from svc.errors import BadBody, BadValue, ClientError
from svc.pages.cells import CELL, UNSEEN, Line, lines_of, shortened, size_text
from svc.pages.collection import type_text
from svc.store.schema import Attribute
from svc.store.values.conversion import text_to_value
from svc.store.values.records import MISSING, iso_text, to_ms

VALUE, NULL, ABSENT = "value", "null", "missing"
"""States of a field."""
OTHERS = "~others"
"""The token of the field of all that is not declared; no name has it."""
FILES = ("file", "bytes")
"""Formats of uploads."""
STATED = ("text", "crlf", "lines")
"""Formats whose state is chosen beside the text; with others the text says it."""
LONGEST_TEXT = 1 << 20  # bytes of a field; of longer values it is told that they are
_ONE_LINE = 100  # characters of a text that has a field of one line
_MOST_ELEMENTS = 1000  # of a list that is shown line by line
_MOST_OPTIONS = 500  # of an enumeration that is offered as a list
_LONGEST_PRETTY = 100_000  # bytes of JSON that are laid out in lines
_NUMBERS = {"Int": "numeric", "Long": "numeric", "BigInt": "numeric", "Float": "decimal"}
_LISTED = frozenset(("ID", "String", "Boolean", "Date", *_NUMBERS))
_PREVIEWED = frozenset(("image/png", "image/jpeg", "image/gif", "image/webp", "image/avif", "image/bmp"))
"""Types of pictures that cannot have scripts in them."""
_ODD = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff]")
_BYTE = re.compile(r"\(byte ([0-9]+)\)")


@dataclass(slots=True)
class Field:
    """`format`: see above, "" if it is only shown. `states`: (state, what it is called) that can be chosen beside the text. `options`: (value of the option,
    its text). `href`: of the content of a file. `lines`: of what is only shown, made while it is shown. `target`: address of the table whose keys it holds.
    `about`: what else is known of it. `empty`: what it is without a text. `is_prose`: its text may have several lines, whether or not it has."""

    name: str
    token: str
    type: str = ""
    format: str = ""
    state: str = VALUE
    text: str = ""
    states: list[tuple[str, str]] = field(default_factory=list)
    options: list[tuple[str, str]] = field(default_factory=list)
    required: bool = False
    mode: str = ""
    help: str = ""
    about: str = ""
    href: str = ""
    is_image: bool = False
    is_prose: bool = False
    lines: Iterable[Line] | None = None
    empty: str = ""
    target: str = ""
    link: str = ""
    faults: list[str] = field(default_factory=list)

    @property
    def id(self) -> str:
        return f"f-{self.token}"

    @property
    def sent_as(self) -> str:
        """The name of the field in the form."""
        return OTHERS if self.token == OTHERS else f"v.{self.token}"

    @property
    def is_long(self) -> bool:
        """Whether its text needs more than a line."""
        return self.format in ("json", "lines") or self.is_prose or len(self.text) > _ONE_LINE or "\n" in self.text

    @property
    def height(self) -> int:
        """Rows of its text area."""
        return min(20, max(1 if self.is_prose else 2, self.text.count("\n") + 1, len(self.text) // 90 + 1))

    @property
    def size(self) -> int:
        """Bytes of its text."""
        return len(self.text) if self.text.isascii() else len(self.text.encode("utf-8", "surrogatepass"))

    @property
    def digest(self) -> str:
        return digest_of(self.state, self.text)

    @property
    def describedby(self) -> str:
        """The ids of what describes it."""
        parts = [f"{self.id}-fault"] if self.faults else []
        if self.help or self.about:
            parts.append(f"{self.id}-help")
        return " ".join(parts)


class FieldFault(ClientError):
    """What was typed in is no value."""

    code = "BAD_VALUE"


# --- names and digests ---------------------------------------------------------------------------------------------------------------


def token_of(name: str) -> str:
    """A name that every form can carry, for any name of an attribute.

    >>> token_of("price"), token_of('a"b')
    ('price', '~612262')
    """
    return name if is_plain_name(name) else f"~{name.encode('utf-8', 'surrogatepass').hex()}"


def is_plain_name(name: str) -> bool:
    """Whether a name can stand in an address, in a form and in an id as it is."""
    return name.isascii() and name.replace("_", "a").isalnum()


def name_of(token: str) -> str:
    """The inverse of `token_of`. Raises ValueError."""
    return bytes.fromhex(token[1:]).decode() if token.startswith("~") else token


def digest_of(state: str, text: str) -> str:
    """Of what a field shows, or has sent.

    >>> digest_of("value", "a\\r\\nb") == digest_of("value", "a\\nb") != digest_of("null", "a\\nb")
    True
    """
    return blake2b(f"{state} {in_lines(text)}".encode("utf-8", "surrogatepass"), digest_size=9).hexdigest()


def in_lines(text: str) -> str:
    """With LF as the line ends, whatever a browser has made of them."""
    return text.replace("\r\n", "\n").replace("\r", "\n") if "\r" in text else text


# --- a value as a field --------------------------------------------------------------------------------------------------------------


def field_of(attribute: Attribute, value: Any, *, is_new: bool = False) -> Field:
    """The field of a value, MISSING included. `is_new`: of a record that is not there yet."""
    found = Field(attribute.name, token_of(attribute.name), _type(attribute), required=attribute.required)
    found.help = _help(attribute)
    found.state = ABSENT if value is MISSING else NULL if value is None else VALUE
    if found.state != VALUE:
        found.empty = "default" if is_new and attribute.default else found.state
    found.is_prose = attribute.type == "String" and not attribute.indexed and not attribute.elements and attribute.enum is None
    if _is_content(attribute, value):
        return _file(found, attribute, value)
    found.format = _format(attribute, value)
    if found.state == VALUE:
        found.text = _text(found.format, value)
        if found.size > LONGEST_TEXT:
            return _only_shown(found, value, f"Too long for a form: {found.size:,} bytes")
    elif found.state == NULL and found.format == "json":
        found.text = NULL
    if found.format in STATED:
        found.states = _states(attribute, found, is_new)
    elif found.format == "choice":
        _add_options(found, attribute, value)
    found.mode = "date" if attribute.type == "Date" and found.format == "plain" else _NUMBERS.get(attribute.type, "")
    return found


def shown_field(attribute: Attribute, value: Any, about: str) -> Field:
    """A field that cannot be written. `about`: why."""
    return _only_shown(Field(attribute.name, token_of(attribute.name), _type(attribute), help=_help(attribute)), value, about)


def rest_field(rest: dict[str, Any]) -> Field:
    """What a record has besides the attributes that are declared."""
    found = Field("Other properties", OTHERS, "object", "json", VALUE)
    found.text = _text("json", rest) if rest else ""
    found.help = "Properties that are not declared, as one JSON object. One that is taken out of it becomes null: a change of a record removes nothing."
    if found.size > LONGEST_TEXT:
        return _only_shown(found, rest, f"Too long for a form: {found.size:,} bytes")
    return found


def as_sent(shown: Field, format_: str, state: str, text: str) -> Field:
    """The field as it was filled in, in the format in which it was shown then."""
    if shown.format in ("", *FILES) or format_ in FILES:
        return shown
    filled = replace(shown, format=format_, state=state, text=text, faults=list(shown.faults))
    if format_ == "json":
        filled.states, filled.options = [], []
    elif format_ == "choice" and text not in [value for value, _ in filled.options]:
        filled.options.append((text, shortened(text.removeprefix("="), CELL)))
    return filled


def _is_content(attribute: Attribute, value: Any) -> bool:
    return isinstance(value, bytes) or is_blob(value) or (attribute.type in ("Bytes", "Blob") and not attribute.elements)


def _file(found: Field, attribute: Attribute, value: Any) -> Field:
    found.format = "bytes" if isinstance(value, bytes) or attribute.type == "Bytes" else "file"
    if isinstance(value, bytes):
        found.about = size_text(len(value))
        found.text = blake2b(value, digest_size=9).hexdigest()
    elif is_blob(value):
        kind = value.type.partition(";")[0].strip().lower()
        found.about = f"{shortened(value.type, 100)}, {size_text(value.size)}"
        found.is_image = kind in _PREVIEWED
        content = value.inline
        own = str(value.number) if content is None else blake2b(content, digest_size=9).hexdigest()
        found.text = f"{value.type} {value.size} {own}"
    return found


def _only_shown(found: Field, value: Any, about: str) -> Field:
    found.format, found.text, found.about = "", "", about
    found.lines = lines_of(value)
    return found


def _format(attribute: Attribute, value: Any) -> str:
    """How the declared type is edited, if the value is of that type; else as JSON."""
    kind = attribute.type
    if attribute.elements:
        return "lines" if _fits_lines(attribute, value) else "json"
    if attribute.enum is not None and len(attribute.enum.values) <= _MOST_OPTIONS:
        return "choice" if value is MISSING or value is None or isinstance(value, str) else "json"
    if kind == "Boolean":
        return "choice" if value is MISSING or value is None or isinstance(value, bool) else "json"
    if kind in ("String", "ID"):
        return "text" if value is MISSING or value is None else _text_format(value)
    if kind in _NUMBERS:
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        return "plain" if value is MISSING or value is None or is_number else "json"
    if kind == "Date":
        return "plain" if value is MISSING or value is None or isinstance(value, datetime) else "json"
    return "json"


def _text_format(value: Any) -> str:
    """`json` for what a browser would send in another form than it got it."""
    if not isinstance(value, str) or not _is_plain(value):
        return "json"
    if "\r" not in value:
        return "text"
    between = value.replace("\r\n", "")
    return "json" if "\r" in between or "\n" in between else "crlf"


def _is_plain(text: str) -> bool:
    """Whether it has no control characters but tabs and line ends, and no half of a surrogate pair."""
    return _ODD.search(text) is None


def _fits_lines(attribute: Attribute, value: Any) -> bool:
    if attribute.type not in _LISTED:
        return False
    if value is MISSING or value is None:
        return True
    if not isinstance(value, list) or len(value) > _MOST_ELEMENTS:
        return False
    single = replace(attribute, elements=False)
    is_text = attribute.type in ("ID", "String")
    for element in value:
        if is_text:
            if not isinstance(element, str) or not element or "\n" in element or "\r" in element or not _is_plain(element):
                return False
        elif element is None or _format(single, element) == "json":
            return False
    return True


def _text(format_: str, value: Any) -> str:
    if format_ in ("text", "crlf"):
        return in_lines(value)
    if format_ == "choice":
        return f"={_plain_text(value)}"
    if format_ == "plain":
        return _plain_text(value)
    if format_ == "lines":
        return "\n".join(map(_plain_text, value))
    return json_text(value)


def _plain_text(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, datetime):
        return iso_text(to_ms(value))
    return repr(value) if isinstance(value, float) else str(value)


def json_text(value: Any) -> str:
    """A value as JSON for people: laid out in lines, and what cannot be seen as an escape."""
    body = encode_json(value)
    if len(body) <= _LONGEST_PRETTY and body[:1] in (b"{", b"["):
        body = msgspec.json.format(body, indent=2)
    return UNSEEN.sub(lambda found: found[0] if found[0] == "\n" else json.dumps(found[0])[1:-1], body.decode())


def _states(attribute: Attribute, found: Field, is_new: bool) -> list[tuple[str, str]]:
    """What can be chosen beside a text, which may be empty."""
    states = [(VALUE, "list" if found.format == "lines" else "text")]
    if not attribute.required or found.state == NULL:
        states.append((NULL, "null"))
    if found.state == ABSENT:
        states.append((ABSENT, "default" if is_new and attribute.default else "missing"))
    return states if len(states) > 1 else []


def _add_options(found: Field, attribute: Attribute, value: Any) -> None:
    values = ("true", "false") if attribute.enum is None else attribute.enum.values
    found.options = [(f"={each}", shortened(each, CELL)) for each in values]
    if found.state != VALUE:
        found.text = found.state
    elif found.text not in [option for option, _ in found.options]:
        found.options.append((found.text, shortened(found.text[1:], CELL)))
    if not attribute.required or found.state == NULL:
        found.options.insert(0, (NULL, "null"))
    if found.state == ABSENT:
        found.options.insert(0, (ABSENT, "default" if attribute.default else "missing"))


def _type(attribute: Attribute) -> str:
    if attribute.enum is None:
        return type_text(attribute)
    return f"[{attribute.enum.name}]" if attribute.elements else attribute.enum.name


def _help(attribute: Attribute) -> str:
    texts = [attribute.explained]
    if attribute.default:
        texts.append(f"Default: {attribute.default}")
    return shortened(" ".join(text for text in texts if text), 1000)


# --- a field as a value --------------------------------------------------------------------------------------------------------------


def value_of(attribute: Attribute | None, format_: str, state: str, text: str) -> Any:
    """What was typed in, as a body of JSON would have it; MISSING: nothing. `attribute`: None: not declared. Raises FieldFault."""
    if state != VALUE:
        return None if state == NULL else MISSING
    if format_ == "json":
        return json_value(text)
    if format_ == "choice":
        return _chosen(attribute, text)
    text = in_lines(text)
    if format_ in ("text", "crlf") or attribute is None:
        return text.replace("\n", "\r\n") if format_ == "crlf" else text
    if format_ == "lines":
        single = replace(attribute, elements=False)
        return [_converted(single, line) for line in text.split("\n") if line]
    text = text.strip()
    return _converted(attribute, text) if text else MISSING


def json_value(text: str) -> Any:
    """MISSING for no text at all. Raises FieldFault, which says where it is wrong."""
    if not text.strip():
        return MISSING
    if len(text) > LONGEST_TEXT:
        raise FieldFault(f"JSON of more than {LONGEST_TEXT >> 20} MiB is too long for a form: send it as the body of a request")
    body = in_lines(text).encode("utf-8", "surrogatepass")
    try:
        return decode_json(body)
    except BadBody as error:
        found = _BYTE.search(error.message)
        if found is None:
            raise FieldFault(error.message) from None
        before = body[: int(found[1])].decode("utf-8", "replace")
        line, column = before.count("\n") + 1, len(before) - (before.rfind("\n") + 1) + 1
        raise FieldFault(f"{error.message[: found.start()].rstrip()} (line {line}, column {column})") from None


def _chosen(attribute: Attribute | None, text: str) -> Any:
    if text in (NULL, ABSENT):
        return None if text == NULL else MISSING
    text = text.removeprefix("=")
    if attribute is not None and attribute.type == "Boolean":
        return _converted(attribute, text)
    return text


def _converted(attribute: Attribute, text: str) -> Any:
    try:
        value = text_to_value(attribute, text if attribute.type in ("ID", "String") else text.strip())
    except BadValue as error:
        raise FieldFault(error.message) from None
    return iso_text(to_ms(value)) if isinstance(value, datetime) else value
