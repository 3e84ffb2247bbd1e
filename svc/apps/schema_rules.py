"""Rules about rows in schema files: `@allow` and `@account` of types, and where in a file a fault of a rule is (spec: rows §1.1, §1.9, §2.2).

What is not known or not right in a schema is ignored elsewhere, or costs one table. A rule that is ignored lets everybody in: so whatever is not right
about a rule ends the load of the application, of which nothing is applied then.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import Protocol

from svc.apps.schema_directives import TYPE_DIRECTIVES
from svc.apps.schema_syntax import Directive, SourcePosition
from svc.config.origins import hint, nearest
from svc.query.rule_form import read_allow
from svc.store.schema import Allow
from svc.store.values.conversion import printable

ALLOW = "allow"
BUILT_IN = frozenset(("anonymous", "super_user"))  # roles that may be named before somebody makes them


class RuleReport(Protocol):
    def fail_rule(self, message: str, position: SourcePosition) -> None: ...


@dataclass(frozen=True, slots=True)
class DeclaredRule:
    """One `@allow` as it was read, and where."""

    allow: Allow
    directive: Directive

    def position(self, action: str = "", offset: int | None = None) -> SourcePosition:
        """Where a fault is: in the text of the rule for an action, at a character counted from 0 if that is known; of the whole directive without an action."""
        place = self.directive.positions.get(action)
        if place is None:
            return self.directive.position
        return place.position if offset is None else place.at(offset + 1)


@dataclass(frozen=True, slots=True)
class NamedRole:
    """A role that an `@allow` names. `place`: `file:line:column`."""

    name: str
    type: str
    place: str


def is_rule(directive: Directive) -> bool:
    """Whether a directive of a type is `@allow`, or is meant to be it."""
    return directive.name == ALLOW or (directive.name not in TYPE_DIRECTIVES and nearest(directive.name, TYPE_DIRECTIVES) == ALLOW)


def read_rules(type_name: str, directives: Iterable[Directive], report: RuleReport) -> tuple[DeclaredRule, ...]:
    """The `@allow`s of a type, in order. What is not right is a fault each, and the rest of the same `@allow` is read all the same."""
    found = []
    for directive in directives:
        if not is_rule(directive):
            continue
        if directive.name != ALLOW:
            report.fail_rule(f"the directive @{directive.name} is not known{hint(ALLOW, '@')}", directive.position)
            continue
        found.append(DeclaredRule(_read(type_name, directive, report), directive))
    return tuple(found)


def _read(type_name: str, directive: Directive, report: RuleReport) -> Allow:
    allow, faults = read_allow(directive.arguments)
    for argument, message in [*[(argument, f": {argument} is there twice") for argument in directive.repeated], *faults]:
        place = directive.positions.get(argument)
        report.fail_rule(f"@allow of {printable(type_name)}{message}", directive.position if place is None else place.position)
    return allow


def unknown_roles(named: Iterable[NamedRole], known: Collection[str]) -> list[str]:
    """A warning for each role that is named and is not there. `known`: the names of those that are."""
    return [
        f"{each.place}: @allow of {printable(each.type)} is for the role {printable(each.name)}, which does not exist{hint(nearest(each.name, known))}"
        for each in named
        if each.name not in known and each.name not in BUILT_IN
    ]
