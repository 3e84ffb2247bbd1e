"""Names that are offered while something is entered: databases, tables and attributes that the caller sees."""

from __future__ import annotations

from dataclasses import dataclass, field

from svc.console.page import ConsolePage
from svc.errors import Problem

MOST_NAMES = 2000


@dataclass(slots=True)
class Names:
    """`tables`: without their database; `qualified`: with it."""

    databases: list[str] = field(default_factory=list)
    tables: list[str] = field(default_factory=list)
    qualified: list[str] = field(default_factory=list)
    attributes: list[str] = field(default_factory=list)


async def names_of(page: ConsolePage) -> Names:
    """Of at most MOST_NAMES tables, and as many attributes."""
    if not page.may("describe_all"):
        return Names()
    try:
        described = await page.run("describe_all")
    except Problem:
        return Names()
    tables: dict[str, None] = {}
    attributes: dict[str, None] = {}
    found = Names(sorted(described))
    for database in found.databases:
        for table, description in described[database].items():
            tables[table] = None
            found.qualified.append(f"{database}.{table}")
            attributes.update(dict.fromkeys(each["attribute"] for each in description["attributes"]))
            if len(found.qualified) >= MOST_NAMES or len(attributes) >= MOST_NAMES:
                break
    found.tables, found.attributes = sorted(tables), sorted(attributes)[:MOST_NAMES]
    return found


async def names_offered(page: ConsolePage) -> list[str]:
    """For statements: tables with their databases, and attributes."""
    names = await names_of(page)
    return names.qualified + names.attributes
