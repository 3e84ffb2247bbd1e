"""What an operation selects: its fields, with fragments put in their places and equal ones merged (spec: graphql §4.3; GraphQL §6.3.2).

Fragments are only a way to write a selection: the type that they name has no meaning. What an operation selects is bounded in depth and in number,
for fragments within fragments multiply.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from graphql.language import (
    ArgumentNode,
    DirectiveNode,
    FieldNode,
    FragmentDefinitionNode,
    FragmentSpreadNode,
    InlineFragmentNode,
    Node,
    SelectionSetNode,
    print_ast,
)

from svc.graphql.faults import fault_at

MAX_DEPTH = 50
PLANS = 16  # that a field keeps
MAX_FRAGMENTS = 200  # named ones, within each other
MAX_SELECTIONS = 10_000  # fields and fragments, each counted wherever it is put

Includes = Callable[[Node, tuple[DirectiveNode, ...]], bool]
"""Whether a part of the document with these directives is there. Raises DocumentError."""

TYPE_NAME = "__typename"


def refuse_directives(node: Node, directives: tuple[DirectiveNode, ...]) -> bool:
    """An `Includes` of the short form."""
    if directives:
        raise fault_at(directives[0], "Directives are not supported.")
    return True


class Field:
    """`key`: its name in the answer. `nested`: None without a selection of its own. `width`: the number of fields in that, at all depths. `plans`: what was
    made of it for the next time, by its users; `most_plans`: of each of them."""

    __slots__ = ("arguments", "key", "most_plans", "name", "nested", "node", "plans", "width")

    def __init__(self, node: FieldNode, key: str, nested: tuple[Field, ...] | None) -> None:
        self.node = node
        self.name = node.name.value
        self.key = key
        self.arguments: tuple[ArgumentNode, ...] = tuple(node.arguments or ())
        self.nested = nested
        self.width: int = sum([1 + each.width for each in nested or ()])
        self.plans: dict[Any, Any] = {}
        self.most_plans = PLANS


class Selections:
    """Collects the fields of one operation. `includes`: what its directives say."""

    def __init__(self, fragments: Mapping[str, FragmentDefinitionNode], includes: Includes) -> None:
        self._fragments = fragments
        self._includes = includes
        self._count = 0
        self._arguments: dict[int, list[tuple[str, str]]] = {}  # by the id of a node of the document, for one may stand in many places

    def fields(self, selection: SelectionSetNode) -> tuple[Field, ...]:
        """The fields of the operation in the order of the answer. Raises DocumentError."""
        return self._merged([(selection, ())], 1)

    def _merged(self, sets: list[tuple[SelectionSetNode, tuple[str, ...]]], depth: int) -> tuple[Field, ...]:
        """The fields of some selections, as one. Each comes with the names of the fragments that it stands in."""
        found: dict[str, list[tuple[FieldNode, tuple[str, ...]]]] = {}
        for selection, inside in sets:
            if depth > MAX_DEPTH:
                raise fault_at(selection, f"The selection is nested deeper than {MAX_DEPTH} levels.")
            for node, within in self._flattened(selection, inside):
                key = node.name.value if node.alias is None else node.alias.value
                found.setdefault(key, []).append((node, within))
        return tuple([self._field(key, nodes, depth) for key, nodes in found.items()])

    def _field(self, key: str, nodes: list[tuple[FieldNode, tuple[str, ...]]], depth: int) -> Field:
        first = nodes[0][0]
        if len(nodes) > 1:
            for other in {id(node): node for node, _ in nodes}.values():
                if other is not first and not self._is_same(first, other):
                    raise fault_at(other, f"'{key}' is selected twice with different names or arguments; give one of them an alias.")
        sets = [(node.selection_set, inside) for node, inside in nodes if node.selection_set is not None]
        if sets and len(sets) < len(nodes):
            raise fault_at(first, f"'{key}' is selected as a whole and with a selection of its own; give one of them an alias.")
        return Field(first, key, self._merged(sets, depth + 1) if sets else None)

    def _flattened(self, selection: SelectionSetNode, inside: tuple[str, ...]) -> Iterator[tuple[FieldNode, tuple[str, ...]]]:
        """The field nodes of a selection and of the fragments in it."""
        open_sets = [(iter(selection.selections), inside)]
        while open_sets:
            nodes, inside = open_sets[-1]
            node = next(nodes, None)
            if node is None:
                open_sets.pop()
                continue
            self._count += 1
            if self._count > MAX_SELECTIONS:
                raise fault_at(node, f"The operation selects more than {MAX_SELECTIONS} fields.")
            if not self._includes(node, tuple(node.directives or ())):
                continue
            if isinstance(node, FieldNode):
                yield node, inside
            elif isinstance(node, InlineFragmentNode):
                open_sets.append((iter(node.selection_set.selections), inside))
            elif isinstance(node, FragmentSpreadNode):
                fragment = self._fragment(node, inside)
                if self._includes(fragment, tuple(fragment.directives or ())):
                    open_sets.append((iter(fragment.selection_set.selections), (*inside, node.name.value)))

    def _fragment(self, node: FragmentSpreadNode, inside: tuple[str, ...]) -> FragmentDefinitionNode:
        name = node.name.value
        fragment = self._fragments.get(name)
        if fragment is None:
            raise fault_at(node, f"Fragment `{name}` not found.")
        if name in inside:
            raise fault_at(node, f"Fragment cycle: {name}")
        if len(inside) == MAX_FRAGMENTS:
            raise fault_at(node, f"The fragments are nested deeper than {MAX_FRAGMENTS} levels.")
        return fragment

    def _is_same(self, one: FieldNode, other: FieldNode) -> bool:
        """Whether two fields of one key are of the same name with the same arguments, in whatever order."""
        if one.name.value != other.name.value:
            return False
        if not one.arguments and not other.arguments:
            return True
        return self._arguments_of(one) == self._arguments_of(other)

    def _arguments_of(self, node: FieldNode) -> list[tuple[str, str]]:
        found = self._arguments.get(id(node))
        if found is None:
            found = sorted((argument.name.value, print_ast(argument.value)) for argument in node.arguments or ())
            self._arguments[id(node)] = found
        return found
