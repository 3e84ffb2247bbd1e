"""One operation of a document, ready to run (spec: graphql §3): its variables and the fields that it selects."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from graphql.language import DirectiveNode, FragmentDefinitionNode, Node, OperationType

from svc.graphql.document import Document
from svc.graphql.faults import fault_at
from svc.graphql.selection import PLANS, Field, Selections, refuse_directives
from svc.graphql.values import BAD_VALUE, Variable, declared_variables, literal, resolved_variables
from svc.messages import Request

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


_FIELD_BYTES = 1000  # of a field of the selection, with what is made of it
_PLAN_BYTES = 6000
_MOST_PLANS = 64  # of an operation
_FIELD_PLAN_BYTES = 200
_MOST_PLANNED = 4096  # fields in the plans of an operation

QUERY, MUTATION, SUBSCRIPTION = OperationType.QUERY, OperationType.MUTATION, OperationType.SUBSCRIPTION


class Operation:
    """`fields` None: they depend on the variables, see `selected`."""

    __slots__ = ("_fields", "_variables", "document", "kind", "node")

    def __init__(self, document: Document, name: str | None, *, extended: bool) -> None:
        """The operation that `name` selects. Raises DocumentError."""
        node = document.operation(name)
        if not extended and node.operation is MUTATION:
            raise fault_at(node, "Mutations are not supported yet.")
        if not extended and node.operation is SUBSCRIPTION:
            raise fault_at(node, "Subscriptions are not supported.")
        self.document = document
        self.node = node
        self.kind = node.operation
        directives: list[DirectiveNode] = list(node.directives or ())
        for definition in node.variable_definitions or ():
            directives += definition.directives or ()
        if directives:
            raise fault_at(directives[0], "Directives are not supported here." if extended else "Directives are not supported.")
        self._variables: tuple[Variable, ...] = declared_variables(node, lists=extended)
        self._fields: tuple[Field, ...] | None = None
        if extended:
            seen = Directives(None)
            fields = self._collected(seen.includes)
            self._fields = None if seen.were_found else fields
        else:
            self._fields = self._collected(refuse_directives)

    def bound_plans(self) -> int:
        """Say how many plans the fields may keep. Returns about how many bytes the operation takes with them."""
        fields = self._fields or ()
        if not fields:
            return _FIELD_BYTES
        width = sum([1 + field.width for field in fields])
        plans = max(1, min(PLANS, _MOST_PLANS // len(fields), _MOST_PLANNED // width))
        for field in fields:
            field.most_plans = plans
        return _FIELD_BYTES * width + plans * (_PLAN_BYTES * len(fields) + _FIELD_PLAN_BYTES * width)

    def note_in(self, request: Request) -> None:
        """Say in the span of the request what it asks for, if it has one: in the words of the semantic conventions."""
        state, name = request._state, self.node.name
        if state is not None and state.spans is not None:
            state.spans.note({"graphql.operation.type": self.kind.value} | ({} if name is None else {"graphql.operation.name": name.value}))

    def variables(self, given: Mapping[str, Any] | None) -> Mapping[str, Any]:
        """The values of the variables. Raises DocumentError."""
        return resolved_variables(self._variables, given)

    @property
    def only_field(self) -> Field | None:
        """The field of a query that has one, the same with all variables."""
        fields = self._fields
        return fields[0] if fields is not None and len(fields) == 1 and self.kind is QUERY else None

    @property
    def is_fixed(self) -> bool:
        """Whether the fields are the same with all variables."""
        return self._fields is not None

    def fields(self, variables: Mapping[str, Any]) -> tuple[Field, ...]:
        """What is selected with these variables. Raises DocumentError."""
        return self._collected(Directives(variables).includes) if self._fields is None else self._fields

    def _collected(self, includes: Any) -> tuple[Field, ...]:
        return Selections(self.document.fragments, includes).fields(self.node.selection_set)


def known_operation(document: Document, name: str | None, *, extended: bool) -> Operation | None:
    """The operation, if it was made before."""
    found = document.selected.get(_place(name, extended))
    return found if isinstance(found, Operation) else None


def selected_operation(document: Document, name: str | None, *, extended: bool) -> Operation:
    """The operation, made once for a document that is kept. Raises DocumentError."""
    found = known_operation(document, name, extended=extended)
    if found is None:
        found = document.selected[_place(name, extended)] = Operation(document, name, extended=extended)
        document.weight += found.bound_plans()
    return found


def _place(name: str | None, extended: bool) -> str:
    return ("+" if extended else "-") + (name or "")
