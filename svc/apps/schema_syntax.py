"""Schema text -> declarations: the only module that knows GraphQL's grammar (spec: schema-and-store §1). Nothing is resolved here.

graphql-core parses. One relaxation comes before it: in a type, a field may be written without a type (`note @indexed`, §1.11). A first
pass over the tokens finds such fields and inserts `: Any`; `_Positions` leads every position in the text so changed back to the original.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from dataclasses import dataclass, field

from svc.errors import SchemaError
from svc.late_package import import_late
from svc.store.schema import SCALAR_TYPES
from svc.store.values.conversion import printable

import_late("graphql")  # only the language of it

from graphql.error import GraphQLError  # noqa: E402
from graphql.language import (  # noqa: E402
    BooleanValueNode,
    ConstDirectiveNode,
    DirectiveNode,
    EnumTypeDefinitionNode,
    EnumValueNode,
    FieldDefinitionNode,
    FloatValueNode,
    IntValueNode,
    Lexer,
    ListTypeNode,
    ListValueNode,
    Location,
    NamedTypeNode,
    NonNullTypeNode,
    NullValueNode,
    ObjectTypeDefinitionNode,
    ObjectValueNode,
    Source,
    StringValueNode,
    TokenKind,
    TypeNode,
    ValueNode,
    parse,
)

Value = str | int | float | bool | None | list["Value"] | dict[str, "Value"]
"""A directive's argument. Enum names are strings."""

MAX_NUMERAL = 40  # characters; longer ones stay strings


@dataclass(frozen=True, slots=True)
class SourcePosition:
    """Line and column count from 1, in the original text."""

    line: int
    column: int


@dataclass(frozen=True, slots=True)
class ArgumentPosition:
    """The position of an argument. `plain`: a string in one line without escapes, so that its characters have positions too."""

    position: SourcePosition
    plain: bool

    def at(self, column: int) -> SourcePosition:
        """The position of a character of a plain string, counted from 1; of anything else the position of the whole."""
        return SourcePosition(self.position.line, self.position.column + column - 1) if self.plain else self.position


@dataclass(frozen=True, slots=True)
class Directive:
    name: str
    arguments: dict[str, Value]
    position: SourcePosition
    positions: dict[str, ArgumentPosition] = field(default_factory=dict, compare=False)  # of the arguments
    repeated: tuple[str, ...] = ()  # names of arguments that are given more than once: the last counts


@dataclass(frozen=True, slots=True)
class FieldDeclaration:
    """`lists`: brackets around the type; `required`, `element_required`: `!` of the whole and of the innermost type."""

    name: str
    type: str
    lists: int
    required: bool
    element_required: bool
    has_arguments: bool
    directives: tuple[Directive, ...]
    description: str
    position: SourcePosition


@dataclass(frozen=True, slots=True)
class TypeDeclaration:
    name: str
    fields: tuple[FieldDeclaration, ...]
    directives: tuple[Directive, ...]
    description: str
    position: SourcePosition


@dataclass(frozen=True, slots=True)
class EnumDeclaration:
    """`positions`: of the values. `directives`: of the type and of its values."""

    name: str
    values: tuple[str, ...]
    positions: tuple[SourcePosition, ...]
    directives: tuple[Directive, ...]
    description: str
    position: SourcePosition


@dataclass(frozen=True, slots=True)
class OtherDefinition:
    """A definition that declares nothing for us: an interface, an input type, an extension ..."""

    kind: str
    name: str
    position: SourcePosition
    directives: tuple[Directive, ...] = ()


Declaration = TypeDeclaration | EnumDeclaration | OtherDefinition


def parse_schema(text: str) -> list[Declaration]:
    """The definitions of one schema file in their order. Raises SchemaError with line and column for an invalid schema."""
    positions = _Positions(text)
    try:
        insertions = untyped_fields(text)
        if not insertions and _is_blank(text):
            return []
        positions = _Positions(text, insertions)
        document = parse(_inserted(text, insertions))
    except GraphQLError as error:
        position = positions.of(next(iter(error.positions or ()), 0))
        raise SchemaError(printable(error.message.removeprefix("Syntax Error: ")), position.line, position.column) from None
    except RecursionError:
        raise SchemaError("the text is nested too deeply", 1, 1) from None
    reader = _DeclarationReader(positions)
    return [reader.definition(node) for node in document.definitions]


# --- fields without a type -----------------------------------------------------------------------------------------------------------

_UNTYPED = ": Any"
_INSIDE = {TokenKind.PAREN_L: 1, TokenKind.PAREN_R: -1}
_KEYWORDS = frozenset(("enum", "input", "interface", "scalar", "union"))  # behind them `type` is a name
_STRINGS = (TokenKind.STRING, TokenKind.BLOCK_STRING)


def _is_blank(text: str) -> bool:
    """A file without a definition, which graphql-core refuses, declares nothing."""
    return Lexer(Source(text)).advance().kind is TokenKind.EOF


def untyped_fields(text: str) -> list[int]:
    """Positions behind the names of the fields that have no type. The result for an invalid schema is undefined: parsing it fails later.

    A name directly followed by the name of a built-in type is not an untyped field but a forgotten colon, which the parser reports.
    """
    lexer = Lexer(Source(text))
    found: list[int] = []
    parentheses = braces = 0
    header = body = False  # between `type` and its `{`; between its braces
    expects_field = False
    previous = lexer.token
    token = lexer.advance()
    while token.kind is not TokenKind.EOF:
        following = lexer.advance()
        kind = token.kind
        parentheses = max(0, parentheses + _INSIDE.get(kind, 0))
        if parentheses or kind is TokenKind.PAREN_R:
            pass
        elif kind is TokenKind.BRACE_L:
            braces += 1
            body = expects_field = header and braces == 1
            header = False
        elif kind is TokenKind.BRACE_R:
            braces = max(0, braces - 1)
            body = body and braces > 0
        elif not body:
            if (
                token.value == "type"
                and kind is TokenKind.NAME
                and not (braces or previous.kind is TokenKind.AT or previous.value in _KEYWORDS)
            ):
                header = True
        elif kind is TokenKind.NAME and previous.kind is not TokenKind.AT:
            if expects_field:
                if following.kind is TokenKind.COLON or following.kind is TokenKind.PAREN_L:
                    expects_field = False
                elif following.kind in _AFTER_UNTYPED and following.value not in SCALAR_TYPES:
                    found.append(token.end)
            elif previous.kind is TokenKind.COLON or previous.kind is TokenKind.BRACKET_L:  # the type; behind it, a next field may follow
                expects_field = True
        previous, token = token, following
    return found


_AFTER_UNTYPED = frozenset((TokenKind.AT, TokenKind.NAME, TokenKind.BRACE_R, *_STRINGS))


def _inserted(text: str, positions: list[int]) -> str:
    if not positions:
        return text
    starts, ends = [0, *positions], [*positions, len(text)]
    return _UNTYPED.join([text[start:end] for start, end in zip(starts, ends, strict=True)])


class _Positions:
    """Offsets in the text with insertions -> lines and columns of the original."""

    def __init__(self, text: str, insertions: list[int] | None = None) -> None:
        self._line_starts = [0, *[found.end() for found in re.finditer(r"\r\n|[\n\r]", text)]]
        # Where each insertion begins in the changed text.
        self._insertions = [position + number * len(_UNTYPED) for number, position in enumerate(insertions or [])]

    def of(self, offset: int) -> SourcePosition:
        before = bisect_right(self._insertions, offset)
        if before:
            # An offset inside an insertion belongs to the position of the insertion.
            offset = max(self._insertions[before - 1], offset - len(_UNTYPED)) - (before - 1) * len(_UNTYPED)
        line = bisect_right(self._line_starts, offset)
        return SourcePosition(line, offset - self._line_starts[line - 1] + 1)


# --- nodes of the parser -> declarations ---------------------------------------------------------------------------------------------


class _DeclarationReader:
    def __init__(self, positions: _Positions) -> None:
        self._positions = positions

    def definition(self, node: object) -> Declaration:
        loc: Location | None = getattr(node, "loc", None)
        position = self._position(loc)
        if isinstance(node, EnumTypeDefinitionNode):
            return self._enum(node)
        if not isinstance(node, ObjectTypeDefinitionNode):
            kind = str(getattr(node, "kind", "")).replace("_", " ").removesuffix(" definition")
            if kind in ("operation", "fragment"):
                raise SchemaError("a schema file declares types, it cannot hold queries", position.line, position.column)
            name = getattr(node, "name", None)
            directives = self._directives(getattr(node, "directives", None))
            return OtherDefinition(kind, name.value if name is not None else "", position, directives)
        return TypeDeclaration(
            node.name.value,
            tuple([self._field(field) for field in node.fields or ()]),
            self._directives(node.directives),
            node.description.value if node.description else "",
            self._position(node.name.loc),
        )

    def _enum(self, node: EnumTypeDefinitionNode) -> EnumDeclaration:
        return EnumDeclaration(
            node.name.value,
            tuple([value.name.value for value in node.values or ()]),
            tuple([self._position(value.loc) for value in node.values or ()]),
            self._directives(node.directives)
            + tuple([found for value in node.values or () for found in self._directives(value.directives)]),
            node.description.value if node.description else "",
            self._position(node.name.loc),
        )

    def _field(self, node: FieldDefinitionNode) -> FieldDeclaration:
        kind: TypeNode = node.type
        required = isinstance(kind, NonNullTypeNode)
        lists = 0
        element_required = False
        while not isinstance(kind, NamedTypeNode):
            if isinstance(kind, NonNullTypeNode):
                element_required = lists > 0
                kind = kind.type
            elif isinstance(kind, ListTypeNode):
                lists += 1
                element_required = False
                kind = kind.type
        return FieldDeclaration(
            node.name.value,
            kind.name.value,
            lists,
            required,
            element_required,
            bool(node.arguments),
            self._directives(node.directives),
            node.description.value if node.description else "",
            self._position(node.name.loc),
        )

    def _directives(self, nodes: tuple[ConstDirectiveNode, ...] | tuple[DirectiveNode, ...] | None) -> tuple[Directive, ...]:
        found = []
        for node in nodes or ():
            names = [argument.name.value for argument in node.arguments or ()]
            arguments = {argument.name.value: _value(argument.value) for argument in node.arguments or ()}
            positions = {argument.name.value: self._argument_position(argument.value) for argument in node.arguments or ()}
            repeated = tuple([name for name in arguments if names.count(name) > 1]) if len(names) > len(arguments) else ()
            found.append(Directive(node.name.value, arguments, self._position(node.loc), positions, repeated))
        return tuple(found)

    def _argument_position(self, node: ValueNode) -> ArgumentPosition:
        position, loc = self._position(node.loc), node.loc
        if not isinstance(node, StringValueNode) or loc is None or loc.end - loc.start != len(node.value) + 2:
            return ArgumentPosition(position, False)
        return ArgumentPosition(SourcePosition(position.line, position.column + 1), True)  # behind the quote

    def _position(self, loc: Location | None) -> SourcePosition:
        return self._positions.of(loc.start if loc is not None else 0)


def _value(node: ValueNode) -> Value:
    if isinstance(node, StringValueNode | EnumValueNode | BooleanValueNode):
        return node.value
    if isinstance(node, IntValueNode | FloatValueNode):
        if len(node.value) > MAX_NUMERAL:
            return node.value
        return int(node.value) if isinstance(node, IntValueNode) else float(node.value)
    if isinstance(node, ListValueNode):
        return [_value(element) for element in node.values]
    if isinstance(node, ObjectValueNode):
        return {field.name.value: _value(field.value) for field in node.fields}
    assert isinstance(node, NullValueNode)
    return None
