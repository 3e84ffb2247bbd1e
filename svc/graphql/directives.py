"""`@skip` and `@include` of the extended form (spec: graphql §7; GraphQL §3.13)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from graphql.language import DirectiveNode, FragmentDefinitionNode, Node

from svc.graphql.faults import fault_at
from svc.graphql.values import BAD_VALUE, literal

_TAKES_IF = ("skip", "include")


class Directives:
    """What the directives say with these variables; None: they are examined only, and everything is there."""

    def __init__(self, variables: Mapping[str, Any] | None) -> None:
        self._variables = variables
        self.were_found = False

    def includes(self, node: Node, directives: tuple[DirectiveNode, ...]) -> bool:
        """Whether the node is there. Raises DocumentError."""
        if not directives:
            return True
        if isinstance(node, FragmentDefinitionNode):
            raise fault_at(directives[0], f"@{directives[0].name.value} cannot be used on the definition of a fragment.")
        self.were_found = True
        names = [directive.name.value for directive in directives]
        is_there = True
        for directive, name in zip(directives, names, strict=True):
            if name not in _TAKES_IF:
                raise fault_at(directive, f"There is no directive @{name}; there are @skip and @include.")
            if names.count(name) > 1:
                raise fault_at(directive, f"@{name} is given twice.")
            given = list(directive.arguments or ())
            if len(given) != 1 or given[0].name.value != "if":
                raise fault_at(directive, f"@{name} takes one argument: if.")
            if self._variables is None:
                continue
            value = literal(given[0].value, self._variables, "Argument")
            if type(value) is not bool:
                raise fault_at(directive, f"The argument 'if' of @{name} is true or false.", BAD_VALUE)
            is_there = is_there and value is (name == "include")
        return is_there
