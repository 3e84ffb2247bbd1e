"""Trees of expressions: precedence, what filters and groups belong to, faults."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

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
    Path,
    Pattern,
    Variable,
    Wildcard,
)
from svc.sql.functions.jsonata.parser import MAX_LENGTH, parse
from svc.sql.functions.jsonata.values import Fault


def shown(node: Node | None) -> str:
    """A tree with all its parentheses."""
    match node:
        case None:
            text = "?"
        case Literal(value=value):
            text = repr(value)
        case Variable(name=name):
            text = f"${name}"
        case Name(name=name):
            text = name
        case Wildcard(is_deep=is_deep):
            text = "**" if is_deep else "*"
        case Path(steps=steps):
            text = ".".join(map(shown, steps))
        case Order(terms=terms):
            text = "^(" + ",".join([f"{'>' if is_descending else '<'}{shown(term)}" for term, is_descending in terms]) + ")"
        case Array(items=items):
            text = f"[{','.join(map(shown, items))}]"
        case Object(pairs=pairs):
            text = shown_pairs(pairs)
        case Block(items=items):
            text = f"({';'.join(map(shown, items))})"
        case Negative(operand=operand):
            text = f"-{shown(operand)}"
        case Binary(operator=operator, left=left, right=right):
            text = f"<{shown(left)} {operator} {shown(right)}>"
        case Condition(test=test, then=then, otherwise=otherwise):
            text = f"<{shown(test)} ? {shown(then)} : {shown(otherwise)}>"
        case Bind(name=name, value=value):
            text = f"<${name} := {shown(value)}>"
        case Call(function=function, args=args):
            text = f"{shown(function)}({','.join(map(shown, args))})"
        case Lambda(parameters=parameters, body=body):
            text = f"λ({','.join(parameters)}){{{shown(body)}}}"
        case Pattern(pattern=pattern):
            text = f"/{pattern}/"
        case _:
            raise AssertionError(node)
    if node is not None:
        text += "".join([f"[{shown(each)}]" for each in node.filters]) + ("[]" if node.is_kept else "")
        text += shown_pairs(node.group) if node.group is not None else ""
    return text


def shown_pairs(pairs: list[tuple[Node, Node]]) -> str:
    return "{" + ",".join([f"{shown(key)}:{shown(value)}" for key, value in pairs]) + "}"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a.b.c", "a.b.c"),
        ("1 + 2 * 3", "<1 + <2 * 3>>"),
        ("1 - 2 - 3", "<<1 - 2> - 3>"),
        ("a & b = c", "<<a & b> = c>"),
        ("a or b and c", "<a or <b and c>>"),
        ("a.b + c.d", "<a.b + c.d>"),
        ("a[0].b", "a[0].b"),
        ("a.b[0]", "a.b[0]"),
        ("(a.b)[0]", "(a.b)[0]"),
        ("a[b = 1][c]", "a[<b = 1>][c]"),
        ("a[]", "a[]"),
        ("a.b{c: d}", "a.b{c:d}"),
        ("a.{'c': d}", "a.{'c':d}"),
        ("a.b^(>c, d)", "a.b.^(>c,<d)"),
        ("a^(b)[0].c", "a.^(<b)[0].c"),
        ("a ? b : c ? d : e", "<a ? b : <c ? d : e>>"),
        ("a ? b", "<a ? b : ?>"),
        ("$x := $y := 1", "<$x := <$y := 1>>"),
        ("($x := 1; $x)", "(<$x := 1>;$x)"),
        ("(a;)", "(a)"),
        ("()", "()"),
        ("$f(a, ?)", "$f(a,?)"),
        ("$f()()", "$f()()"),
        ("a.$f(b)", "a.$f(b)"),
        ("a ~> $f(b) ~> $g", "<<a ~> $f(b)> ~> $g>"),
        ("function($a, $b){$a}", "λ(a,b){$a}"),
        ("λ(){1}(2)", "λ(){1}(2)"),
        ("[1..3, a, [b]]", "[<1 .. 3>,a,[b]]"),
        ("-a", "-a"),
        ("-1", "-1"),
        ("- -1", "1"),
        ("2 - -1", "<2 - -1>"),
        ("*.**", "*.**"),
        ("a * b", "<a * b>"),
        ("*[0]", "*[0]"),
        ("a.'b c'", "a.b c"),
        ("'a'.b", "a.b"),
        ("and and or", "<and and or>"),
        ("in in in", "<in in in>"),
        ("a.and", "a.and"),
        ("true and `true`", "<True and true>"),
        ("$$.a", "$$.a"),
        ("$contains(a, /x\\/y/i)", "$contains(a,/(?i)x/y/)"),
        ("a / b / c", "<<a / b> / c>"),
        ("a ?: b ?? c", "<<a ?: b> ?? c>"),
    ],
)
def test_trees(text: str, expected: str) -> None:
    assert shown(parse(text)) == expected


@pytest.mark.parametrize(
    ("text", "position"),
    [
        ("", 0), ("a b", 2), ("a.", 2), ("(a", 2), ("[a", 2), ("{a}", 2), ("a[0", 3), ("a..b", 1), ("a.1", 2), ("a := 1", 2), ("$x[0] := 1", 6),
        ("a{b:c}{d:e}", 6),
        ("a{b:c}[0]", 6), ("function(a){1}", 9), ("function($a)", 12), ("/a/x", 0), ("|a|b|", 0), ("a@$b", 1), ("a#$b", 1), ("%", 0), ("1 2", 2),
        ("a ? : b", 4), ("a^b", 2),
        ("x" * (MAX_LENGTH + 1), -1),
    ],
)  # fmt: skip
def test_faults(text: str, position: int) -> None:
    with pytest.raises(Fault) as caught:
        parse(text)
    assert caught.value.position == position


TOKENS = [
    "a",
    "$x",
    "$",
    "1",
    "'s'",
    "(",
    ")",
    "[",
    "]",
    "{",
    "}",
    ".",
    ",",
    ":",
    ";",
    "?",
    "+",
    "*",
    "=",
    "^",
    ":=",
    "~>",
    "..",
    "and",
    "in",
    "function",
    "/r/",
    "-",
]


@given(st.lists(st.sampled_from(TOKENS), max_size=30).map(" ".join))
def test_any_tokens_are_a_tree_or_a_fault(text: str) -> None:
    try:
        shown(parse(text))
    except Fault as error:
        assert -1 <= error.position <= len(text)
