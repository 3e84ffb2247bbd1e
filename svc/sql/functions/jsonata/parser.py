"""Text of an expression -> its tree, by operator precedence.

Not of the language here: `%` as the parent of a value, `@` and `#`, which bind variables to steps of a path, transformations (`|a|b|`), signatures of
functions.
"""

from __future__ import annotations

from collections.abc import Callable

from svc.sql.functions.jsonata.lexer import END, NAME, NUMBER, OPERATOR, TEXT, VARIABLE, Token, pattern_at, tokenize
from svc.sql.functions.jsonata.nodes import (
    Array,
    Binary,
    Bind,
    Block,
    Call,
    Condition,
    Lambda,
    Literal,
    Name,
    Negative,
    Node,
    Object,
    Order,
    Pairs,
    Path,
    Pattern,
    Variable,
    Wildcard,
)
from svc.sql.functions.jsonata.values import Fault

MAX_LENGTH = 4000  # characters
_MAX_DEPTH = 60  # parentheses and operators one within another

_PRECEDENCE = {
    ":=": 10, "?": 20, "..": 20, "or": 25, "and": 30, "=": 40, "!=": 40, "<": 40, "<=": 40, ">": 40, ">=": 40, "in": 40, "~>": 40, "^": 40, "?:": 40,
    "??": 40, "+": 50, "-": 50, "&": 50, "*": 60, "/": 60, "%": 60, "{": 70, ".": 75, "[": 80, "(": 80,
}  # fmt: skip
_NEGATIVE = 70
_PLAIN = frozenset(("or", "and", "=", "!=", "<", "<=", ">", ">=", "in", "~>", "?:", "??", "+", "-", "&", "*", "/", "%"))
_CONSTANTS = {"true": True, "false": False, "null": None}
_FLAGS = frozenset("im")


def parse(text: str) -> Node:
    """Raises Fault."""
    if len(text) > MAX_LENGTH:
        raise Fault(f"more than {MAX_LENGTH} characters")
    parser = _Parser(text)
    node = parser.expression(0)
    if parser.token.kind != END:
        raise parser.unexpected()
    return node


class _Parser:
    def __init__(self, text: str) -> None:
        self._text = text
        self._depth = 0
        self.token = tokenize(text)
        self._infix: dict[str, Callable[[Node, Token], Node]] = {
            ".": self._path,
            "[": self._filter,
            "{": self._group,
            "(": self._call,
            "^": self._order,
            "?": self._condition,
            ":=": self._bind,
        }

    def expression(self, precedence: int) -> Node:
        self._depth += 1
        if self._depth > _MAX_DEPTH:
            raise Fault(f"an expression is nested deeper than {_MAX_DEPTH} levels", self.token.at)
        node = self._prefix()
        while (operator := self._operator()) and _PRECEDENCE.get(operator, 0) > precedence:
            token = self._advance()
            special = self._infix.get(operator)
            if special is not None:
                node = special(node, token)
            elif operator in _PLAIN:
                node = Binary(token.at, operator, node, self.expression(_PRECEDENCE[operator]))
            else:
                raise self.unexpected(token)
        self._depth -= 1
        return node

    def _operator(self) -> str:
        """Of the token at hand, which may be a word."""
        token = self.token
        if token.kind == OPERATOR or (token.kind == NAME and token.value in ("and", "or", "in")):
            return str(token.value)
        return ""

    def _advance(self) -> Token:
        token = self.token
        self.token = tokenize(self._text, token.end)
        return token

    def _is(self, operator: str) -> bool:
        return self.token.kind == OPERATOR and self.token.value == operator

    def _take(self, operator: str) -> bool:
        if self._is(operator):
            self._advance()
            return True
        return False

    def _expect(self, operator: str) -> None:
        if not self._take(operator):
            raise self.unexpected(expected=operator)

    def unexpected(self, token: Token | None = None, expected: str = "") -> Fault:
        token = token or self.token
        shown = "the end" if token.kind == END else self._text[token.at : min(token.end, token.at + 40)]
        return Fault(f"{shown} is not possible here" + (f", where {expected} is expected" if expected else ""), token.at)

    # --- what an expression begins with ---------------------------------------------------------------------------------------------------

    def _prefix(self) -> Node:
        token = self.token
        if self._is("/"):
            return self._pattern(token)
        self._advance()
        if token.kind == NUMBER or token.kind == TEXT:
            return Literal(token.at, token.value)
        if token.kind == VARIABLE:
            return Variable(token.at, str(token.value))
        if token.kind == NAME:
            return self._name(token, str(token.value))
        if token.kind == END:
            raise self.unexpected(token)
        operator = token.value
        if operator == "-":
            return self._negative(token)
        if operator == "(":
            return Block(token.at, self._items(";", ")"))
        if operator == "[":
            return Array(token.at, self._array_items())
        if operator == "{":
            return Object(token.at, self._pairs())
        if operator == "*" or operator == "**":
            return Wildcard(token.at, operator == "**")
        raise self.unexpected(token)

    def _name(self, token: Token, name: str) -> Node:
        is_quoted = self._text[token.at] == "`"
        if not is_quoted and name in _CONSTANTS:
            return Literal(token.at, _CONSTANTS[name])
        if not is_quoted and name in ("function", "λ") and self._is("("):
            return self._lambda(token)
        return Path(token.at, [Name(token.at, name)])

    def _negative(self, token: Token) -> Node:
        operand = self.expression(_NEGATIVE)
        if type(operand) is Literal and (type(operand.value) is int or type(operand.value) is float):
            return Literal(token.at, -operand.value)
        return Negative(token.at, operand)

    def _pattern(self, token: Token) -> Node:
        pattern, flags, end = pattern_at(self._text, token.at)
        if not _FLAGS.issuperset(flags):
            raise Fault(f"the flags of a regular expression are i and m, not {flags}", token.at)
        self.token = tokenize(self._text, end)
        return Pattern(token.at, f"(?{flags}){pattern}" if flags else pattern)

    def _lambda(self, token: Token) -> Node:
        self._expect("(")
        parameters: list[str] = []
        while not self._take(")"):
            if parameters:
                self._expect(",")
            if self.token.kind != VARIABLE:
                raise self.unexpected(expected="a variable")
            parameters.append(str(self._advance().value))
        self._expect("{")
        body = self.expression(0)
        self._expect("}")
        return Lambda(token.at, parameters, body)

    def _items(self, separator: str, end: str) -> list[Node]:
        items: list[Node] = []
        while not self._take(end):
            if items:
                self._expect(separator)
                if separator == ";" and self._take(end):
                    break
            items.append(self.expression(0))
        return items

    def _array_items(self) -> list[Node]:
        items: list[Node] = []
        while not self._take("]"):
            if items:
                self._expect(",")
            item = self.expression(_PRECEDENCE[".."])
            if self._is(".."):
                token = self._advance()
                item = Binary(token.at, "..", item, self.expression(_PRECEDENCE[".."]))
            items.append(item)
        return items

    def _pairs(self) -> Pairs:
        pairs: Pairs = []
        while not self._take("}"):
            if pairs:
                self._expect(",")
            key = self.expression(0)
            self._expect(":")
            pairs.append((key, self.expression(0)))
        return pairs

    # --- what follows one -----------------------------------------------------------------------------------------------------------------

    def _path(self, left: Node, token: Token) -> Node:
        right = self.expression(_PRECEDENCE["."])
        path = left if type(left) is Path and left.group is None else Path(left.at, [_as_step(left)])
        path.steps += [_as_step(step) for step in (right.steps if type(right) is Path and right.group is None else [right])]
        return path

    def _last(self, node: Node) -> Node:
        """What filters behind a node belong to."""
        return node.steps[-1] if type(node) is Path else node

    def _filter(self, left: Node, token: Token) -> Node:
        if self._take("]"):
            self._last(left).is_kept = True
            return left
        last = self._last(left)
        if left.group is not None:
            raise Fault("a filter cannot follow groups", token.at)
        last.filters.append(self.expression(0))
        self._expect("]")
        return left

    def _group(self, left: Node, token: Token) -> Node:
        if left.group is not None:
            raise Fault("groups cannot be grouped", token.at)
        left.group = self._pairs()
        return left

    def _call(self, left: Node, token: Token) -> Node:
        args: list[Node | None] = []
        while not self._take(")"):
            if args:
                self._expect(",")
            args.append(None if self._take("?") else self.expression(0))
        return Call(token.at, left, args)

    def _order(self, left: Node, token: Token) -> Node:
        self._expect("(")
        terms = []
        while True:
            is_descending = self._take(">")
            if not is_descending:
                self._take("<")
            terms.append((self.expression(0), is_descending))
            if not self._take(","):
                break
        self._expect(")")
        path = left if type(left) is Path and left.group is None else Path(left.at, [left])
        path.steps.append(Order(token.at, terms))
        return path

    def _condition(self, left: Node, token: Token) -> Node:
        then = self.expression(0)
        return Condition(token.at, left, then, self.expression(0) if self._take(":") else None)

    def _bind(self, left: Node, token: Token) -> Node:
        if type(left) is not Variable or left.filters:
            raise Fault("only a variable can be bound", token.at)
        return Bind(token.at, left.name, self.expression(_PRECEDENCE[":="] - 1))


def _as_step(node: Node) -> Node:
    """In a path, a string is a name."""
    if type(node) is not Literal:
        return node
    if type(node.value) is not str:
        raise Fault("a step of a path cannot be a number or a constant", node.at)
    return Name(node.at, node.value, filters=node.filters, is_kept=node.is_kept)
