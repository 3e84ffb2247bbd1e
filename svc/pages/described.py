"""What a table consists of: its description (spec: http §10.1) as a page."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from svc.pages.cells import shortened
from svc.pages.collection import target_table
from svc.pages.links import Links
from svc.resources import TableResource
from svc.resources.resource import Resource

_LONGEST_DESCRIPTION = 4000


@dataclass(slots=True)
class AttributeRow:
    """`facts`: key, required and the like. `target`: the table that a relationship leads to, and `href` its address."""

    name: str
    type: str
    facts: list[str]
    target: str
    href: str
    description: str


@dataclass(slots=True)
class TablePage:
    name: str
    description: str
    database: str
    records: str
    attributes: list[AttributeRow] = field(default_factory=list)


def is_description(resource: type[Resource] | None, value: Any) -> bool:
    """Whether a result is the description of the resource's table, not data that an application's code has returned."""
    return (
        resource is not None
        and issubclass(resource, TableResource)
        and type(value) is dict
        and {"records", "name", "database", "attributes"} <= value.keys()
        and value["name"] == resource.table.name
        and isinstance(value["attributes"], list)
    )


def table_page(resource: type[TableResource], value: dict[str, Any], links: Links) -> TablePage:
    """`value`: the description, with the attributes that the caller may see."""
    table = resource.table
    page = TablePage(
        table.name, shortened(table.definition.description, _LONGEST_DESCRIPTION), table.database.name, links.collection(table)
    )
    for each in value["attributes"]:
        attribute = table.attributes.get(each["name"])
        target, href = "", ""
        facts = [text for name, text in _FACTS if each.get(name)]
        if each.get("nullable") is False:
            facts.append("required")
        if attribute is not None and attribute.relationship is not None:
            relationship = attribute.relationship
            target = relationship.table
            facts += [f"by {relationship.from_}"] if relationship.from_ else []
            facts += [f"by {target}.{relationship.to}"] if relationship.to else []
            related = target_table(table, attribute)
            href = "" if related is None else links.collection(related)
        kind = f"[{each['elements']}]" if each.get("elements") else each["type"]
        page.attributes.append(
            AttributeRow(
                shortened(each["name"], 200), kind, facts, target, href, shortened(each.get("description", ""), _LONGEST_DESCRIPTION)
            )
        )
    return page


_FACTS = (
    ("isPrimaryKey", "primary key"),
    ("indexed", "indexed"),
    ("computed", "computed"),
    ("assignCreatedTime", "time of creation"),
    ("assignUpdatedTime", "time of the last change"),
    ("expiresAt", "time of expiry"),
)
