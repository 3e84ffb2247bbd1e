"""Any query has the rows that the equivalent query of REST has, with null for what is missing."""

import json
from typing import Any
from urllib.parse import quote

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.graphql import Shop
from tests.support.profile import examples

OWN = ("id", "name", "price", "stock", "madeAt", "tags", "meta", "label", "nothing")
PLACE = ("city", "nothing")
OF_BRAND = ("id", "name", "country", "nothing")

Selected = dict[str, Any]
"""Key in the answer -> (name, what is selected below or None)."""


@st.composite
def selections(draw: st.DrawFn, kind: str = "Product", depth: int = 3) -> Selected:
    names: list[str] = list(OWN if kind == "Product" else OF_BRAND if kind == "Brand" else PLACE)
    below = {"Product": ("place", "brand"), "Brand": ("products",), "Place": ()}[kind] if depth else ()
    found: Selected = {}
    for name in draw(st.lists(st.sampled_from([*names, *below]), min_size=1, max_size=4)):
        nested = None
        if name in below:
            nested = draw(selections({"place": "Place", "brand": "Brand", "products": "Product"}[name], depth - 1))
        key = name if name not in found and draw(st.booleans()) else f"x{len(found)}"
        found[key] = name, nested
    return found


def document(draw: st.DrawFn, selected: Selected, fragments: list[str]) -> str:
    """The selection, some of it in fragments, some of it twice."""
    parts = []
    for key, (name, nested) in selected.items():
        text = name if key == name else f"{key}: {name}"
        if nested is not None:
            text += f" {{ {document(draw, nested, fragments)} }}"
        how = draw(st.sampled_from(("plain", "plain", "twice", "inline", "fragment")))
        if how == "twice":
            text = f"{text} ... on Any {{ {text} }}"
        elif how == "inline":
            text = f"... {{ {text} }}"
        elif how == "fragment":
            fragments.append(f"fragment F{len(fragments)} on Any {{ {text} }}")
            text = f"...F{len(fragments) - 1}"
        parts.append(text)
    return " ".join(parts)


def rest_select(selected: Selected) -> str:
    """The same names, each once, with all that is selected below it anywhere."""
    merged: dict[str, Any] = {}
    for name, nested in selected.values():
        if nested is None:
            merged.setdefault(name, None)
        else:
            of_name = merged.setdefault(name, {})
            for below in nested.values():
                of_name[len(of_name)] = below
    return ",".join([name if nested is None else f"{name}{{{rest_select(nested)}}}" for name, nested in merged.items()]) + ","


def expected(row: Any, selected: Selected) -> Any:
    if isinstance(row, list):
        return [expected(each, selected) for each in row]
    if not isinstance(row, dict):
        return row
    found = {}
    for key, (name, nested) in selected.items():
        value = row.get(name)
        found[key] = value if nested is None else expected(value, selected=nested)
    return found


CONDITIONS: list[tuple[dict[str, Any], str]] = [
    ({}, ""),
    ({"id": "3"}, "id==3"),
    ({"id": 3}, "id==3"),
    ({"name": "name 1"}, "name==name 1"),
    ({"name": "name 1", "stock": None}, "name==name 1&stock==null"),
    ({"price": 7.5}, "price==7.5"),
    ({"madeAt": "2026-01-04T00:00:00.000Z"}, "madeAt==2026-01-04T00:00:00.000Z"),
    ({"tags": "a"}, "tags==a"),
    ({"brand": {"name": "Acme"}}, "brand.name==Acme"),
    ({"brand": {"country": "NO", "id": "zeta"}, "name": "name 2"}, "brand.country==NO&brand.id==zeta&name==name 2"),
    ({"place": {"city": "Oslo"}, "tags": "t4"}, "place.city==Oslo&tags==t4"),
    ({"name": None}, "name==null"),
    ({"brand": {}}, ""),
]


@settings(max_examples=examples(100), deadline=None)
@given(data=st.data(), selected=selections(), condition=st.sampled_from(CONDITIONS), nested=st.booleans())
def test_rows_are_those_of_rest(shop: Shop, data: Any, selected: Selected, condition: tuple[dict[str, Any], str], nested: bool) -> None:
    values, where = condition
    fragments: list[str] = []
    selection = document(data.draw, selected, fragments)
    arguments, declared, variables = [], [], {}
    for name, value in values.items():
        how = data.draw(st.sampled_from(("literal", "given", "default")))
        literal = (
            json.dumps(value) if not isinstance(value, dict) else "{" + " ".join(f"{k}: {json.dumps(v)}" for k, v in value.items()) + "}"
        )
        if how != "literal":
            declared.append(f"${name}: Any" + (f" = {literal}" if how == "default" else ""))
            if how == "given":
                variables[name] = value
        arguments.append(f"{name}: {literal if how == 'literal' else '$' + name}")
    head = f"query ({' '.join(declared)})" if declared else ""
    called = f"({', '.join(arguments)})" if arguments else ""
    answer = shop.data(f"{head} {{ rows: Product{called} {{ {selection} }} }} {' '.join(fragments)}", variables)
    rest = shop.app.get(f"/Product/?{'&'.join(filter(None, (quote(where, safe='=&.'), f'select({rest_select(selected)})')))}")
    assert rest.status == 200, rest.text
    assert answer["rows"] == expected(rest.json, selected)
    assert all(list(row) == list(selected) for row in answer["rows"])
