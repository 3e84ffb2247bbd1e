"""Trees of expressions -> functions that compute them.

Each node becomes a function of the value that it is applied to, and of the `Scope` with the variables. A Sequence is what paths and filters make, and it is
unwrapped where a node ends (`compile_node`), so it never is within another value.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cmp_to_key
from typing import Any, TypeAlias

from svc.sql.functions.jsonata import operators
from svc.sql.functions.jsonata.library import LIBRARY, Builtin
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
from svc.sql.functions.jsonata.values import (
    UNDEFINED,
    Callback,
    ConsArray,
    Fault,
    KeptSequence,
    Sequence,
    Work,
    appended,
    is_number,
    listed,
    truth,
    type_name,
    unwrapped,
)
from svc.sql.functions.patterns import compile_pattern

Evaluation: TypeAlias = Callable[[Any, "Scope"], Any]


class Outer(Sequence):
    """A list that a whole expression is applied to, as one value."""

    __slots__ = ()


class Scope:
    """Variables, and around them those of the scope that this one lies in. `root`: what the whole expression is applied to."""

    __slots__ = ("outer", "root", "values", "work")

    def __init__(self, root: Any, work: Work, outer: Scope | None = None) -> None:
        self.root = root
        self.work = work
        self.outer = outer
        self.values: dict[str, Any] = {}

    def inner(self) -> Scope:
        return Scope(self.root, self.work, self)

    def find(self, name: str) -> Any:
        scope: Scope | None = self
        while scope is not None:
            if name in scope.values:
                return scope.values[name]
            scope = scope.outer
        return UNDEFINED


def compile_node(node: Node) -> Evaluation:
    evaluate = _bare(node)
    if type(node) in _SINGLE and not node.filters and node.group is None and not node.is_kept:
        return evaluate
    if type(node) is not Path:  # whose filters are those of its steps
        for choose in map(_filter, node.filters):
            evaluate = _chosen(evaluate, choose)
    if node.group is not None:
        evaluate = _grouped(evaluate, node.group)
    is_kept = node.is_kept

    def whole(context: Any, scope: Scope) -> Any:
        result = evaluate(context, scope)
        if isinstance(result, Sequence):
            return unwrapped(KeptSequence(result) if is_kept else result)
        return result

    return whole


def _bare(node: Node) -> Evaluation:
    """Without what stands behind the node."""
    return _COMPILERS[type(node)](node)


def _chosen(evaluate: Evaluation, choose: Evaluation) -> Evaluation:
    return lambda context, scope: choose(evaluate(context, scope), scope)


def _filter(node: Node) -> Evaluation:
    """(values, scope) -> a Sequence of those whose place is the number that the condition is, or for which it is true."""
    if type(node) is Literal and is_number(node.value):
        return _place(int(node.value // 1))
    condition = compile_node(node)

    def choose(values: Any, scope: Scope) -> Any:
        elements = listed(values)
        scope.work.spend(len(elements))
        chosen = Sequence()
        for number, element in enumerate(elements):
            found = condition(element, scope)
            if type(found) is bool:
                if found:
                    chosen.append(element)
            elif is_number(found) or (isinstance(found, list) and found and all(map(is_number, found))):
                places = listed(found)
                scope.work.spend(len(places))
                chosen += [element for place in places if place // 1 + (len(elements) if place < 0 else 0) == number]
            elif truth(found, scope.work):
                chosen.append(element)
        return chosen

    return choose


def _place(place: int) -> Evaluation:
    def choose(values: Any, scope: Scope) -> Any:
        elements = listed(values)
        number = place + len(elements) if place < 0 else place
        if not 0 <= number < len(elements):
            return Sequence()
        found = elements[number]
        return found if isinstance(found, list) else Sequence((found,))

    return choose


# --- paths ---------------------------------------------------------------------------------------------------------------------------------


def _path(node: Path) -> Evaluation:
    first = node.steps[0]
    is_kept = any(step.is_kept for step in node.steps)
    if type(first) is Name and len(node.steps) == 1 and not first.filters and not is_kept:
        return _name(first)
    last = len(node.steps) - 1
    steps = [_step(step, number == last) for number, step in enumerate(node.steps)]
    if type(first) is Array and not first.filters:
        steps[0] = _array(first, ConsArray)  # once for all values
    is_variable = type(first) is Variable

    def path(context: Any, scope: Scope) -> Any:
        result: Any = context if isinstance(context, list) and not is_variable else [context]
        for step in steps:
            result = step(result, scope)
            if not result:
                break
        if is_kept and type(result) in (Sequence, ConsArray):
            return KeptSequence([result] if type(result) is ConsArray else result)
        return result

    return path


def _step(node: Node, is_last: bool) -> Evaluation:
    """(values, scope) -> the results for all values."""
    if type(node) is Order:
        order = _order(node)
        for choose in map(_filter, node.filters):
            order = _chosen(order, choose)
        return order
    evaluate = _array(node, ConsArray) if type(node) is Array else _bare(node)
    if node.group is not None:
        evaluate = _grouped(evaluate, node.group)
    stages = [_filter(each) for each in node.filters]

    def step(values: list[Any], scope: Scope) -> Any:
        scope.work.spend(len(values) + 1)
        results = []
        for value in values:
            found = evaluate(value, scope)
            if isinstance(found, Sequence):
                found = unwrapped(found)
            for stage in stages:
                found = stage(found, scope)
            if found is not UNDEFINED:
                results.append(found)
        if is_last and len(results) == 1 and isinstance(results[0], list) and not isinstance(results[0], Sequence):
            return results[0]
        flat = Sequence()
        for found in results:
            if isinstance(found, list) and type(found) is not ConsArray:
                scope.work.spend(len(found))
                flat += found
            else:
                flat.append(found)
        return flat

    return step


def _name(node: Name) -> Evaluation:
    name = node.name

    def look_up(context: Any, scope: Scope) -> Any:
        if type(context) is dict:
            return context.get(name, UNDEFINED)
        if isinstance(context, list):
            return _members(context, name, scope.work)
        return UNDEFINED

    return look_up


def _members(values: list[Any], name: str, work: Work) -> Any:
    work.spend(len(values))
    found = Sequence()
    for value in values:
        member = (
            value.get(name, UNDEFINED) if type(value) is dict else _members(value, name, work) if isinstance(value, list) else UNDEFINED
        )
        if isinstance(member, list):
            found += member
        elif member is not UNDEFINED:
            found.append(member)
    return found


def _wildcard(node: Wildcard) -> Evaluation:
    def members(context: Any, scope: Scope) -> Any:
        if type(context) is Outer:
            context = context[0]
        found = Sequence()
        for member in context.values() if type(context) is dict else context if isinstance(context, list) else ():
            _flatten(member, found, scope.work)
        return found

    def descendants(context: Any, scope: Scope) -> Any:
        found = Sequence()
        waiting = [context]
        while waiting:
            scope.work.spend(1)
            value = waiting.pop()
            if isinstance(value, list):
                waiting += reversed(value)
                continue
            if value is not UNDEFINED:
                found.append(value)
            if type(value) is dict:
                waiting += reversed(value.values())
        return found

    return descendants if node.is_deep else members


def _flatten(value: Any, into: list[Any], work: Work) -> None:
    work.spend(1)
    if isinstance(value, list):
        for element in value:
            _flatten(element, into, work)
    else:
        into.append(value)


def _order(node: Order) -> Evaluation:
    terms = [(compile_node(term), -1 if is_descending else 1) for term, is_descending in node.terms]

    def order(values: list[Any], scope: Scope) -> Any:
        if len(values) < 2:
            return values
        scope.work.spend(len(values) * len(values).bit_length() >> 2)
        keys = [[term(value, scope) for term, _ in terms] for value in values]

        def compare(a: int, b: int) -> int:
            for (_, sign), x, y in zip(terms, keys[a], keys[b], strict=True):
                found = operators.order(x, y)
                if found:
                    # What is undefined comes last, either way.
                    return found if x is UNDEFINED or y is UNDEFINED else sign * found
            return 0

        return [values[number] for number in sorted(range(len(values)), key=cmp_to_key(compare))]

    return order


# --- constructors --------------------------------------------------------------------------------------------------------------------------


def _array(node: Array, kind: type[list[Any]] = list) -> Evaluation:
    items = [(compile_node(item), type(item) is Array) for item in node.items]

    def array(context: Any, scope: Scope) -> Any:
        scope.work.spend(1)
        elements = kind()
        for item, is_array in items:
            value = item(context, scope)
            if value is UNDEFINED:
                continue
            if isinstance(value, list) and not is_array:
                scope.work.spend(len(value))
                elements += value
            else:
                elements.append(value)
        return elements

    return array


def _object(node: Object) -> Evaluation:
    return _grouping(node.pairs)


def _grouped(evaluate: Evaluation, pairs: Pairs) -> Evaluation:
    group = _grouping(pairs)
    return lambda context, scope: group(evaluate(context, scope), scope)


def _grouping(pairs: Pairs) -> Evaluation:
    """An object of the values: those with the same key are one."""
    compiled = [(compile_node(key), compile_node(value)) for key, value in pairs]

    def group(context: Any, scope: Scope) -> Any:
        groups: dict[str, tuple[Any, int]] = {}
        elements = listed(context) or [UNDEFINED]
        scope.work.spend(len(elements) + 4)
        for element in elements:
            for number, (key, _) in enumerate(compiled):
                name = key(element, scope)
                if name is UNDEFINED:
                    continue
                if type(name) is not str:
                    raise Fault(f"the key of an object must be a string, not a value of type {type_name(name)}")
                known = groups.get(name)
                if known is None:
                    groups[name] = (element, number)
                elif known[1] != number:
                    raise Fault("two keys of an object are the same")
                else:
                    scope.work.spend(len(listed(known[0])))
                    groups[name] = (appended(known[0], element), number)
        result = {}
        for name, (data, number) in groups.items():
            value = compiled[number][1](data, scope)
            if value is not UNDEFINED:
                result[name] = value
        return result

    return group


# --- the rest ------------------------------------------------------------------------------------------------------------------------------


def _literal(node: Literal) -> Evaluation:
    value = node.value
    return lambda context, scope: value


def _variable(node: Variable) -> Evaluation:
    name = node.name
    if name == "":
        return lambda context, scope: context[0] if type(context) is Outer else context
    if name == "$":
        return lambda context, scope: scope.root
    builtin = LIBRARY.get(name)

    def variable(context: Any, scope: Scope) -> Any:
        found = scope.find(name)
        return builtin.callback(scope.work) if found is UNDEFINED and builtin is not None else found

    return variable


def _block(node: Block) -> Evaluation:
    items = [compile_node(item) for item in node.items]
    if len(items) == 1 and type(node.items[0]) is not Bind:
        return items[0]

    def block(context: Any, scope: Scope) -> Any:
        inner = scope.inner()
        result: Any = UNDEFINED
        for item in items:
            result = item(context, inner)
        return result

    return block


def _bind(node: Bind) -> Evaluation:
    name, value = node.name, compile_node(node.value)

    def bind(context: Any, scope: Scope) -> Any:
        scope.values[name] = found = value(context, scope)
        return found

    return bind


def _condition(node: Condition) -> Evaluation:
    test, then = compile_node(node.test), compile_node(node.then)
    otherwise = compile_node(node.otherwise) if node.otherwise is not None else _literal(Literal(node.at, UNDEFINED))
    return lambda context, scope: then(context, scope) if truth(test(context, scope), scope.work) else otherwise(context, scope)


def _negative(node: Negative) -> Evaluation:
    operand = compile_node(node.operand)

    def negative(context: Any, scope: Scope) -> Any:
        value = operand(context, scope)
        return value if value is UNDEFINED else operators.subtract(0, value, scope.work)

    return negative


def _binary(node: Binary) -> Evaluation:
    left = compile_node(node.left)
    operator = node.operator
    if operator == "~>":
        return _applied(left, node.right)
    right = compile_node(node.right)
    if operator == "and":
        return lambda context, scope: truth(left(context, scope), scope.work) and truth(right(context, scope), scope.work)
    if operator == "or":
        return lambda context, scope: truth(left(context, scope), scope.work) or truth(right(context, scope), scope.work)
    if operator == "?:" or operator == "??":
        needs_truth = operator == "?:"

        def default(context: Any, scope: Scope) -> Any:
            value = left(context, scope)
            is_used = truth(value, scope.work) if needs_truth else value is not UNDEFINED
            return value if is_used else right(context, scope)

        return default
    compute = operators.OPERATORS[operator]
    return lambda context, scope: compute(left(context, scope), right(context, scope), scope.work)


# --- functions -----------------------------------------------------------------------------------------------------------------------------


def _call(node: Call) -> Evaluation:
    return _call_with(node, None)


def _applied(left: Evaluation, right: Node) -> Evaluation:
    """`x ~> $f(y)` is `$f(x, y)`."""
    if type(right) is Call:
        return _call_with(right, left)
    function = compile_node(right)

    def apply(context: Any, scope: Scope) -> Any:
        value, called = left(context, scope), _callback(function(context, scope))
        if type(value) is Callback:
            return Callback(lambda *args: called.call(value.call(*args)), value.arity)
        return called.call(value)

    return apply


def _callback(value: Any) -> Callback:
    if type(value) is not Callback:
        raise Fault(f"a value of type {type_name(value)} is no function" if value is not UNDEFINED else "there is no function of this name")
    return value


def _call_with(node: Call, before: Evaluation | None) -> Evaluation:
    """`before`: its first argument, which is not among those in parentheses."""
    args = [None if arg is None else compile_node(arg) for arg in node.args]
    if before is not None:
        args.insert(0, before)
    if None in args:
        return _partial(compile_node(node.function), args)
    given = [arg for arg in args if arg is not None]
    function = node.function
    if type(function) is Variable and function.name in LIBRARY and not function.filters:
        return _call_of_library(function.name, LIBRARY[function.name], given)
    called = compile_node(function)

    def call(context: Any, scope: Scope) -> Any:
        found = called(context, scope)
        if found is UNDEFINED:
            raise Fault(f"there is no such function{_meant(function)}", function.at)
        return _callback(found).call(*[arg(context, scope) for arg in given])

    return call


def _meant(function: Node) -> str:
    if type(function) is Path and type(function.steps[-1]) is Name and function.steps[-1].name in LIBRARY:
        return f": did you mean ${function.steps[-1].name}?"
    return ""


def _call_of_library(name: str, builtin: Builtin, args: list[Evaluation]) -> Evaluation:
    def call(context: Any, scope: Scope) -> Any:
        found = scope.find(name)
        values = [arg(context, scope) for arg in args]
        if found is not UNDEFINED:
            return _callback(found).call(*values)
        return builtin.invoke(scope.work, context[0] if type(context) is Outer else context, values)

    return call


def _partial(function: Evaluation, args: list[Evaluation | None]) -> Evaluation:
    def make(context: Any, scope: Scope) -> Any:
        called = _callback(function(context, scope))
        given = [None if arg is None else arg(context, scope) for arg in args]

        def call(*rest: Any) -> Any:
            left = iter(rest)
            return called.call(*[next(left, UNDEFINED) if arg is None else value for arg, value in zip(args, given, strict=True)])

        return Callback(call, args.count(None))

    return make


def _lambda(node: Lambda) -> Evaluation:
    names, body = node.parameters, compile_node(node.body)

    def make(context: Any, scope: Scope) -> Any:
        def call(*args: Any) -> Any:
            scope.work.spend(5)
            inner = scope.inner()
            for number, name in enumerate(names):
                inner.values[name] = args[number] if number < len(args) else UNDEFINED
            return body(context, inner)

        return Callback(call, len(names))

    return make


def _pattern(node: Pattern) -> Evaluation:
    pattern = compile_pattern(node.pattern, True)
    return lambda context, scope: pattern


_COMPILERS: dict[type[Node], Callable[[Any], Evaluation]] = {
    Literal: _literal,
    Variable: _variable,
    Name: _name,
    Wildcard: _wildcard,
    Path: _path,
    Array: _array,
    Object: _object,
    Block: _block,
    Negative: _negative,
    Binary: _binary,
    Condition: _condition,
    Bind: _bind,
    Call: _call,
    Lambda: _lambda,
    Pattern: _pattern,
}
_SINGLE = frozenset((Literal, Negative, Binary, Object, Array, Lambda, Pattern, Block, Condition, Bind))
"""What never is a Sequence: its parts are unwrapped."""
