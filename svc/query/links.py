"""Relationships as a plan uses them."""

from __future__ import annotations

from collections.abc import Iterator

from svc.query.plan import RelatedCondition
from svc.query.resolve import is_many, related_table
from svc.query.tables import AnyTable
from svc.store.schema import Attribute, Relationship


class Link:
    """A relationship as a plan uses it."""

    __slots__ = ("end", "many", "relationship", "source", "target")

    def __init__(self, relationship: Relationship, table: AnyTable, target: AnyTable, many: bool) -> None:
        self.relationship = relationship
        self.target = target
        self.source = source_name(relationship, table)  # the attribute of our records in which it starts
        self.many = many
        # Where it ends: links with one end share their look-ups. A view of a table does not have what another kind of view has.
        self.end = target.name, relationship.to or target.primary_key, type(target)

    @property
    def scans(self) -> bool:
        """Whether the other table has to be read as a whole."""
        to = self.relationship.to
        if to is None or to == self.target.primary_key:
            return False
        index = self.target.indexes.get(to)
        return index is None or not index.ready


class Links:
    """The links of one plan, one for each relationship."""

    __slots__ = ("_links",)

    def __init__(self) -> None:
        self._links: dict[tuple[str, str], Link] = {}

    def __iter__(self) -> Iterator[Link]:
        return iter(self._links.values())

    def __len__(self) -> int:
        return len(self._links)

    def link(self, table: AnyTable, attribute: Attribute) -> Link:
        link = self._links.get((table.name, attribute.name))
        if link is None:
            assert attribute.relationship is not None
            link = Link(attribute.relationship, table, related_table(table, attribute), is_many(attribute, table))
            self._links[table.name, attribute.name] = link
        return link

    def of(self, related: RelatedCondition, table: AnyTable) -> Link:
        link = self._links.get((table.name, related.name))
        if link is None:
            link = self._links[table.name, related.name] = Link(related.relationship, table, related.target, related.many)
        return link


def source_name(relationship: Relationship, table: AnyTable) -> str:
    """The attribute of `table`'s records in which the relationship starts."""
    return relationship.from_ or table.primary_key


def back(relationship: Relationship, table: AnyTable, target: AnyTable) -> Link:
    """The relationship of `table` the other way round: from the records of its target to those of `table`."""
    theirs = relationship.to or target.primary_key
    return Link(Relationship(table.name, from_=theirs, to=relationship.from_ or table.primary_key), target, table, many=True)
