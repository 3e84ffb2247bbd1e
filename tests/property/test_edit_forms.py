"""The form of any record, sent as it is, writes nothing; with one field changed, it changes one property (spec: http §7.8)."""

from __future__ import annotations

import tempfile
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from svc.content.cbor_type import CborType
from svc.content.json_type import encode_json
from svc.pages.editing.fields import FILES, STATED, VALUE, digest_of, field_of, value_of
from svc.store.schema import Attribute, Enumeration
from svc.store.values.conversion import LONG_MAX, whole
from svc.store.values.records import MISSING, decode
from tests.support.application import application
from tests.support.pages import BROWSER, Parsed
from tests.support.profile import examples
from tests.support.sent_forms import forms_of

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
ENUM = Enumeration("Kind", ("ONE", "TWO", "null", "missing"))
TEXTS = st.text(st.characters(exclude_categories=("Cs",)), max_size=30) | st.text("a\r\n\x00 \t,\u202e\"'<&", max_size=8)
DATES = st.integers(-62135596800000, 253402300799999).map(lambda ms: EPOCH + timedelta(milliseconds=ms))
FLOATS = st.floats(allow_nan=False, allow_infinity=False).map(whole)
SCALARS: dict[str, st.SearchStrategy[Any]] = {
    "ID": TEXTS, "String": TEXTS, "Int": st.integers(-(2**31), 2**31 - 1), "Long": st.integers(-LONG_MAX, LONG_MAX),
    "Float": FLOATS | st.integers(-(2**60), 2**60),
    "BigInt": st.integers(-(2**300), 2**300), "Boolean": st.booleans(), "Date": DATES, "Bytes": st.binary(max_size=20),
}  # fmt: skip
ANYTHING = st.recursive(
    st.none() | st.booleans() | TEXTS | st.integers(-(2**90), 2**90) | FLOATS | DATES | st.binary(max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXTS, inner, max_size=4) | st.sets(st.integers(0, 9), max_size=3),
    max_leaves=12,
)
TYPES = (*SCALARS, "Any", "Kind")
NEW = {
    "ID": "new", "String": "a <b>\n&", "Int": "-7", "Long": str(2**53), "Float": "2.5e-3", "BigInt": str(3**200), "Boolean": "true",
    "Date": "1066-10-14T09:00:00.001Z", "Any": '{"n": [1.50, "x", null, 36893488147419103232]}', "Kind": "TWO", "Bytes": '"AA=="',
}  # fmt: skip


@st.composite
def attributes(draw: st.DrawFn) -> list[Attribute]:
    found = []
    for number in range(draw(st.integers(1, 8))):
        kind = draw(st.sampled_from(TYPES))
        is_list = kind != "Any" and draw(st.booleans())
        found.append(Attribute(f"a{number}", kind, elements=is_list, required=draw(st.booleans())))
    return found


def values(draw: st.DrawFn, attribute: Attribute) -> Any:
    one = ANYTHING if attribute.type == "Any" else st.sampled_from(ENUM.values[:2]) if attribute.type == "Kind" else SCALARS[attribute.type]
    whole = st.lists(one | st.none(), max_size=5) if attribute.elements else one
    if attribute.required:
        return draw(whole.filter(lambda value: value is not None))
    return draw(st.just(MISSING) | st.none() | whole)


@st.composite
def records(draw: st.DrawFn) -> tuple[list[Attribute], dict[str, Any]]:
    declared = draw(attributes())
    record = {each.name: value for each in declared if (value := values(draw, each)) is not MISSING}
    return declared, record | draw(st.dictionaries(TEXTS.map(lambda text: f"x{text}"), ANYTHING, max_size=3))


def declaration(attribute: Attribute) -> str:
    kind = f"[{attribute.type}]" if attribute.elements else attribute.type
    return f"{attribute.name}: {kind}{'!' if attribute.required else ''}"


@settings(max_examples=examples(20), deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(made=records(), data=st.data())
def test_what_a_form_does_not_touch_stays(made: tuple[list[Attribute], dict[str, Any]], data: st.DataObject) -> None:
    declared, record = made
    schema = f"enum Kind {{ ONE TWO }}\ntype T @table @export {{ id: ID @primaryKey {' '.join(map(declaration, declared))} }}"
    with tempfile.TemporaryDirectory() as directory, application(Path(directory), "", schema=schema) as site:
        status, _, refused = site.answer("PUT", "/T/k", CborType().encode(record), content_type="application/cbor")
        assert status == 204, refused
        table = site.node.store.databases["data"].tables["T"]
        before = table.get_raw("k")
        assert before is not None
        status, _, page = site.answer("GET", "/T/k?_view=edit", accept=BROWSER)
        assert status == 200, page
        Parsed(page)
        form = forms_of(page)[0]
        body, kind = form.body()
        status, fields, answer = site.answer("POST", "/T/k?_view=edit", body, accept=BROWSER, content_type=kind)
        assert (status, fields.get("location")) == (303, "./k"), answer
        assert table.get_raw("k") == before
        offered = [each for each in declared if f"v.{each.name}" in form]
        if offered:
            changed = data.draw(st.sampled_from(offered))
            name = f"v.{changed.name}"
            text = NEW[changed.type]
            if name in form.options:
                text = f"={text}"
            elif form_format(changed, decode(before)) == "json":
                text = "[]" if changed.elements else '"ONE"' if changed.type == "Kind" else encode_json(_plain(changed, text)).decode()
            elif changed.elements and changed.type in ("ID", "String"):
                text = "a\nb"
            form.fill(name, text)
            body, kind = form.body()
            status, fields, answer = site.answer("POST", "/T/k?_view=edit", body, accept=BROWSER, content_type=kind)
            assert status == 303, answer
            raw = table.get_raw("k")
            assert raw is not None
            first, second = decode(before), decode(raw)
            new = second.pop(changed.name)
            old = first.pop(changed.name, MISSING)
            assert list(map(repr, first.items())) == list(map(repr, second.items()))
            assert repr(new) != repr(old) or raw == before
        assert site.errors == []


def form_format(attribute: Attribute, record: dict[str, Any]) -> str:
    enum = ENUM if attribute.type == "Kind" else None
    kind = "String" if attribute.type == "Kind" else attribute.type
    return field_of(Attribute(attribute.name, kind, elements=attribute.elements, enum=enum), record.get(attribute.name, MISSING)).format


def _plain(attribute: Attribute, text: str) -> Any:
    if attribute.type in ("Int", "Long", "BigInt"):
        return int(text)
    if attribute.type == "Float":
        return float(text)
    if attribute.type == "Boolean":
        return text == "true"
    return {"n": [1.5]} if attribute.type == "Any" else text


@settings(max_examples=examples(300), deadline=None)
@given(data=st.data())
def test_a_field_says_the_value_it_shows(data: st.DataObject) -> None:
    """What a browser sends for a field that nobody has touched has its digest, and means the stored value."""
    attribute = data.draw(attributes())[0]
    value = _value(data, attribute)
    shown = field_of(_declared(attribute), value)
    sent = shown.text.replace("\r\n", "\n").replace("\r", "\n").replace("\n", "\r\n")
    assert digest_of(shown.state, sent) == shown.digest
    if shown.format in FILES:
        return
    state = shown.state if shown.format in STATED else VALUE
    found = value_of(_declared(attribute), shown.format, state, sent)
    if value is MISSING or (value is None and shown.format == "plain"):
        assert found is MISSING
    else:
        assert encode_json(found) == encode_json(value)


def _declared(attribute: Attribute) -> Attribute:
    if attribute.type != "Kind":
        return attribute
    return Attribute(attribute.name, "String", elements=attribute.elements, required=attribute.required, enum=ENUM)


def _value(data: st.DataObject, attribute: Attribute) -> Any:
    @st.composite
    def one(draw: st.DrawFn) -> Any:
        return values(draw, attribute)

    return data.draw(one())
