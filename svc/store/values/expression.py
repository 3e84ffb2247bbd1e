"""Expressions in Python syntax, for computed attributes: text -> a function of a record (spec: schema-and-store §4.3).

Python's own parser reads the text. Its tree is rebuilt from a list of known nodes; whatever is not on that list is refused. In the rebuilt
tree

    a            is  p_a                 a parameter: the property of the record, None if it is missing
    x            is  v_x                 the variable of a comprehension around it
    a.b          is  get(p_a, "b")       never an attribute of a Python object
    a.b(c)       is  method_b(p_a, p_c)  one of the methods that text, lists and objects have here
    a + b        is  add(p_a, p_b)       and so on for all that could take much time or memory: `expression_values.py`

No name of the text is a name in the compiled code, which has no builtins, so there is nothing to get out of. It is compiled once.
"""

from __future__ import annotations

import ast
import re
import warnings
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from svc.errors import SchemaError
from svc.store.values import expression_functions as values
from svc.store.values.expression_functions import FUNCTIONS, KEYWORDS, METHODS
from svc.store.values.split_patterns import NotLinear, compile_split

MAX_CHARACTERS = 4000
MAX_DEPTH = 100  # nodes inside each other; a sum of n terms has n
MAX_LOOPS = 3  # `for` inside each other
MAX_NUMERAL_DIGITS = 300
REMEMBERED = 256  # expressions: each is compiled where its schema is read, where its table is defined, and where it is opened


@dataclass(frozen=True, slots=True)
class Expression:
    """`evaluate` takes the values of the properties `names` of a record in this order, None for missing ones. It raises whatever goes wrong."""

    text: str
    names: tuple[str, ...]
    function: Callable[..., Any]

    def evaluate(self, properties: Iterable[Any]) -> Any:
        meter = values.meter
        meter.spent += values.BUDGET - meter.left
        meter.left = values.BUDGET
        return self.function(*properties)


@lru_cache(maxsize=REMEMBERED)
def compile_expression(text: str) -> Expression:
    """Raises SchemaError, with line and column within the text, for what is no expression, or one that may not be used.

    >>> expression = compile_expression("hall + '-' + str(row.number)")
    >>> expression.names, expression.evaluate(("A", {"number": 3}))
    (('hall', 'row'), 'A-3')
    >>> compile_expression("__import__('os')")
    Traceback (most recent call last):
    ...
    svc.errors.SchemaError: the function __import__ is not known (line 1, column 1)
    """
    if len(text) > MAX_CHARACTERS:
        raise SchemaError(f"an expression can have at most {MAX_CHARACTERS} characters", 1, 1)
    source = _Source(text)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of a text that is compared by `is`, of an unknown escape
            tree = ast.parse(source.line, mode="eval")
            compiler = _Compiler(source)
            body = compiler.value(tree.body)
            names = tuple(sorted(compiler.names))
            parameters = ast.arguments([], [ast.arg(f"p_{name}") for name in names], None, [], [], None, [])
            rebuilt = ast.fix_missing_locations(ast.Expression(ast.Lambda(parameters, body)))
            code = compile(rebuilt, "<expression>", "eval")
    except SyntaxError as error:
        # Offset 0: something is missing at the end.
        line, column = source.place_of_character(error.offset - 1 if error.offset else len(source.line))
        raise SchemaError(error.msg or "invalid syntax", line, column) from None
    except (ValueError, MemoryError, RecursionError, OverflowError) as error:
        # Null characters, half a surrogate pair, nesting beyond what the parser can do.
        reason = "it contains a character that cannot be used" if isinstance(error, ValueError) else "it is nested too deeply"
        raise SchemaError(f"it cannot be parsed: {reason}", 1, 1) from None
    function: Callable[..., Any] = eval(code, {"__builtins__": {}, **_ENVIRONMENT, **compiler.environment})
    return Expression(text, names, function)


def uses_any(text: str, names: Collection[str]) -> bool:
    """Whether an expression may use one of these attributes. One that cannot be read may.

    >>> uses_any("a + b.c", {"b"}), uses_any("a + b.c", {"c"}), uses_any("", {"a"})
    (True, False, True)
    """
    try:
        return not set(names).isdisjoint(compile_expression(text).names)
    except SchemaError:
        return True


_OPERATORS: dict[type[ast.operator], str] = {
    ast.Add: "add", ast.Div: "divide", ast.FloorDiv: "floor_divide", ast.Mult: "multiply", ast.Pow: "power", ast.Mod: "modulo",
}  # fmt: skip
_NATIVE_OPERATORS = (ast.Sub,)
_UNARY = (ast.Not, ast.USub, ast.UAdd)
_COMPARISONS = (ast.Eq, ast.NotEq, ast.Lt, ast.LtE, ast.Gt, ast.GtE)
_LONG_NUMBER = re.compile(r"\d{4}")

_ENVIRONMENT: dict[str, Any] = {
    **{
        name: getattr(values, name)
        for name in ("add", "charge_for", "charge_whole", "contains", "cut", "distinct", "formatted", "get", "loop", "shown")
    },
    **{name: getattr(values, name) for name in ("divide", "floor_divide", "modulo", "multiply", "power")},
    **{f"function_{name}": function for name, function in FUNCTIONS.items()},
    **{f"method_{name}": values.method(name) for name in METHODS},
}


class _Source:
    """The text in one line, as the parser needs it, and where its parts are in the text."""

    def __init__(self, text: str) -> None:
        stripped = text.lstrip()
        self._text = text
        self._start = len(text) - len(stripped)
        self.line = re.sub(r"[\r\n]", " ", stripped).rstrip()

    def place(self, byte_offset: int) -> tuple[int, int]:
        """Line and column, from 1. The parser counts in UTF-8."""
        return self.place_of_character(len(self.line.encode(errors="replace")[:byte_offset].decode(errors="ignore")))

    def place_of_character(self, offset: int) -> tuple[int, int]:
        before = self._text[: self._start + max(offset, 0)]
        lines = re.split(r"\r\n|[\r\n]", before)
        return len(lines), len(lines[-1]) + 1


class _Compiler:
    """Rebuilds one tree. `names`: properties of the record; `environment`: what this expression needs besides the common names."""

    def __init__(self, source: _Source) -> None:
        self.names: set[str] = set()
        self.environment: dict[str, Any] = {}
        self._source = source
        self._variables: list[str] = []  # of the comprehensions around
        self._depth = 0
        self._loops = 0

    def value(self, node: ast.expr) -> ast.expr:
        build = _BUILDERS.get(type(node))
        if build is None:
            raise self._refused(node, f"{_KINDS.get(type(node), type(node).__name__)} cannot be used here")
        self._depth += 1
        if self._depth > MAX_DEPTH:
            raise self._refused(node, f"an expression can be nested at most {MAX_DEPTH} times")
        built = build(self, node)
        self._depth -= 1
        return built

    def _values(self, nodes: list[ast.expr]) -> list[ast.expr]:
        return [self.value(node) for node in nodes]

    def _refused(self, node: ast.expr | ast.keyword, message: str) -> SchemaError:
        line, column = self._source.place(node.col_offset)
        return SchemaError(message, line, column)

    # -- values

    def constant(self, node: ast.Constant) -> ast.expr:
        value = node.value
        if value is Ellipsis or type(value) is complex:
            raise self._refused(node, "a complex number cannot be used here" if value is not Ellipsis else "... cannot be used here")
        if type(value) is int and abs(value) >= 10**MAX_NUMERAL_DIGITS:
            raise self._refused(node, f"a number can have at most {MAX_NUMERAL_DIGITS} digits")
        return ast.Constant(value)

    def name(self, node: ast.Name) -> ast.expr:
        name = node.id
        if name in self._variables:
            return _name(f"v_{name}")
        self._check_name(node, name)
        self.names.add(name)
        return _name(f"p_{name}")

    def _check_name(self, node: ast.expr, name: str) -> None:
        if "__" in name:
            raise self._refused(node, f"the name {name} cannot be used: it contains __")

    def attribute(self, node: ast.Attribute) -> ast.expr:
        self._check_name(node, node.attr)
        return _call("get", self.value(node.value), ast.Constant(node.attr))

    def subscript(self, node: ast.Subscript) -> ast.expr:
        found = self.value(node.value)
        if isinstance(node.slice, ast.Slice):
            ends = (node.slice.lower, node.slice.upper, node.slice.step)
            return _call("cut", found, *[ast.Constant(None) if end is None else self.value(end) for end in ends])
        return ast.Subscript(found, self.value(node.slice), ast.Load())

    def sequence(self, node: ast.List | ast.Tuple | ast.Set) -> ast.expr:
        elements = ast.List(self._values(node.elts), ast.Load())
        return _call("distinct", elements) if isinstance(node, ast.Set) else elements

    def object(self, node: ast.Dict) -> ast.expr:
        keys = [key for key in node.keys if key is not None]
        if len(keys) < len(node.keys):
            raise self._refused(node, "** cannot be used here")
        return ast.Dict(list(self._values(keys)), self._values(node.values))

    # -- operators

    def binary(self, node: ast.BinOp) -> ast.expr:
        left, right = self.value(node.left), self.value(node.right)
        kind = type(node.op)
        if kind in _OPERATORS:
            return _call(_OPERATORS[kind], left, right)
        if kind not in _NATIVE_OPERATORS:
            raise self._refused(node, "of the operators, + - * / // % ** can be used here")
        return ast.BinOp(left, node.op, right)

    def unary(self, node: ast.UnaryOp) -> ast.expr:
        if not isinstance(node.op, _UNARY):
            raise self._refused(node, "the operator ~ cannot be used here")
        return ast.UnaryOp(node.op, self.value(node.operand))

    def boolean(self, node: ast.BoolOp) -> ast.expr:
        return ast.BoolOp(node.op, self._values(node.values))

    def comparison(self, node: ast.Compare) -> ast.expr:
        operands = self._values([node.left, *node.comparators])
        if all(isinstance(operator, _COMPARISONS) for operator in node.ops):
            # What is compared with a constant is looked at no longer than the constant is; that of others is charged for.
            if sum([not isinstance(operand, ast.Constant) for operand in operands]) > 1:
                operands = [_call("charge_whole", operand) for operand in operands]
            return ast.Compare(operands[0], node.ops, operands[1:])
        operator, right = node.ops[0], node.comparators[0]
        if len(node.ops) > 1:
            raise self._refused(node, "in and is cannot be part of a chain of comparisons")
        if isinstance(operator, ast.Is | ast.IsNot):
            if not (isinstance(right, ast.Constant) and (right.value is None or isinstance(right.value, bool))):
                raise self._refused(right, "is can be used with None, True and False")
            return ast.Compare(operands[0], node.ops, operands[1:])
        found = _call("contains", operands[0], operands[1])
        return ast.UnaryOp(ast.Not(), found) if isinstance(operator, ast.NotIn) else found

    def conditional(self, node: ast.IfExp) -> ast.expr:
        return ast.IfExp(self.value(node.test), self.value(node.body), self.value(node.orelse))

    # -- calls

    def call(self, node: ast.Call) -> ast.expr:
        called = node.func
        if any(isinstance(argument, ast.Starred) for argument in node.args) or any(keyword.arg is None for keyword in node.keywords):
            raise self._refused(node, "* and ** cannot be used in calls")
        if isinstance(called, ast.Attribute):
            if isinstance(called.value, ast.Name) and called.value.id == "re" and "re" not in self._variables:
                return self._split(node, called)
            if called.attr not in METHODS:
                raise self._refused(node, f"the method {called.attr} is not known")
            return self._call(node, f"method_{called.attr}", [self.value(called.value)], node.args)
        if not isinstance(called, ast.Name):
            raise self._refused(node, "only functions and methods can be called")
        if called.id not in FUNCTIONS or called.id in self._variables:
            raise self._refused(node, f"the function {called.id} is not known")
        return self._call(node, f"function_{called.id}", [], node.args)

    def _call(self, node: ast.Call, function: str, first: list[ast.expr], arguments: list[ast.expr]) -> ast.expr:
        keywords = []
        for keyword in node.keywords:
            if keyword.arg not in KEYWORDS:
                raise self._refused(keyword, f"the argument {keyword.arg} is not known")
            keywords.append(ast.keyword(keyword.arg, self.value(keyword.value)))
        return ast.Call(_name(function), first + self._values(arguments), keywords)

    def _split(self, node: ast.Call, called: ast.Attribute) -> ast.expr:
        pattern = node.args[0] if node.args else None
        if called.attr != "split":
            raise self._refused(node, "of the module re, split can be used here")
        if not isinstance(pattern, ast.Constant) or not isinstance(pattern.value, str):
            raise self._refused(node, "the pattern of re.split must be a string")
        try:
            split = compile_split(pattern.value)
        except NotLinear as error:
            raise self._refused(pattern, f"the pattern of re.split could take more than linear time: {error}")
        except (re.error, OverflowError, RecursionError) as error:
            raise self._refused(pattern, f"the pattern of re.split is not valid: {error}")
        name = f"split_{len(self.environment)}"
        self.environment[name] = values.splitter(split)
        return self._call(node, name, [], node.args[1:])

    # -- comprehensions

    def comprehension(self, node: ast.ListComp | ast.SetComp | ast.GeneratorExp | ast.DictComp) -> ast.expr:
        """A generator is a list: nothing that is computed later leaves an expression."""
        outside = len(self._variables)
        self._loops += len(node.generators)
        if self._loops > MAX_LOOPS:
            raise self._refused(node, f"at most {MAX_LOOPS} loops can be inside each other")
        generators = []
        for number, generator in enumerate(node.generators):
            if generator.is_async:
                raise self._refused(node, "async cannot be used here")
            done = [*generator.ifs, *(inner.iter for inner in node.generators[number + 1 : number + 2])]
            if number == len(node.generators) - 1:
                done += [node.key, node.value] if isinstance(node, ast.DictComp) else [node.elt]
            parts = sum(isinstance(part, ast.expr) for each in done for part in ast.walk(each))
            cost = values.LOOP_COST + values.ELEMENT_COST * max(parts - values.FREE_PARTS, 0)
            iterated = _call("loop", self.value(generator.iter), ast.Constant(cost))
            target = self._target(generator.target)
            generators.append(ast.comprehension(target, iterated, self._values(generator.ifs), 0))
        built: ast.expr
        if isinstance(node, ast.DictComp):
            built = ast.DictComp(self.value(node.key), self.value(node.value), generators)
        else:
            built = ast.ListComp(self.value(node.elt), generators)
        del self._variables[outside:]
        self._loops -= len(node.generators)
        return _call("distinct", built) if isinstance(node, ast.SetComp) else built

    def _target(self, node: ast.expr) -> ast.expr:
        if isinstance(node, ast.Name):
            self._check_name(node, node.id)
            self._variables.append(node.id)
            return ast.Name(f"v_{node.id}", ast.Store())
        if isinstance(node, ast.Tuple | ast.List):
            return ast.Tuple([self._target(element) for element in node.elts], ast.Store())
        raise self._refused(node, "a loop needs a name for its element")

    # -- f-strings

    def formatted(self, node: ast.JoinedStr) -> ast.expr:
        parts: list[ast.expr] = []
        for part in node.values:
            if isinstance(part, ast.FormattedValue):
                found = _call("shown", self.value(part.value))
                if part.format_spec is not None:
                    specification = ast.Constant(self._specification(part.format_spec))
                    found = _call("formatted", found, specification, ast.Constant(part.conversion))
                parts.append(ast.FormattedValue(found, part.conversion if part.format_spec is None else -1))
            else:
                parts.append(part)
        return _call("charge_for", ast.JoinedStr(parts))

    def _specification(self, node: ast.expr) -> str:
        """The part behind the colon, which must be plain text: a width from the data could be any."""
        assert isinstance(node, ast.JoinedStr)
        text = ""
        for part in node.values:
            if not isinstance(part, ast.Constant):
                raise self._refused(part, "a format cannot contain values")
            text += str(part.value)
        if _LONG_NUMBER.search(text):
            raise self._refused(node, "a format can have a width of at most 999")
        return text


def _name(name: str) -> ast.expr:
    return ast.Name(name, ast.Load())


def _call(function: str, *arguments: ast.expr) -> ast.expr:
    return ast.Call(_name(function), list(arguments), [])


_BUILDERS: dict[type[ast.expr], Callable[[_Compiler, Any], ast.expr]] = {
    ast.Constant: _Compiler.constant,
    ast.Name: _Compiler.name,
    ast.Attribute: _Compiler.attribute,
    ast.Subscript: _Compiler.subscript,
    ast.List: _Compiler.sequence,
    ast.Tuple: _Compiler.sequence,
    ast.Set: _Compiler.sequence,
    ast.Dict: _Compiler.object,
    ast.BinOp: _Compiler.binary,
    ast.UnaryOp: _Compiler.unary,
    ast.BoolOp: _Compiler.boolean,
    ast.Compare: _Compiler.comparison,
    ast.IfExp: _Compiler.conditional,
    ast.Call: _Compiler.call,
    ast.ListComp: _Compiler.comprehension,
    ast.SetComp: _Compiler.comprehension,
    ast.GeneratorExp: _Compiler.comprehension,
    ast.DictComp: _Compiler.comprehension,
    ast.JoinedStr: _Compiler.formatted,
}

_KINDS: dict[type[ast.expr], str] = {
    ast.Lambda: "lambda",
    ast.NamedExpr: ":=",
    ast.Starred: "*",
    ast.Await: "await",
    ast.Yield: "yield",
    ast.YieldFrom: "yield",
    ast.Slice: "a slice",
}
