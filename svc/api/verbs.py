"""Verbs of resource classes: one name, two sides (spec: applications §2).

On the class, `Product.get(34)` makes a call: the arguments are sorted out, a transaction is taken or opened, the handler is bound. On an instance,
`product.get()` is the handler itself, so `super().get(query)` inside a handler reaches that of the parent class; inside a class method it reaches the parent's
call, with the class kept.

How a handler of an application is called depends on how it is written:

    instance   def get(self, query=None), put(self, data, query=None)       `self` is bound to the record that is addressed
    target     the same class with `load_as_instance = False`: def get(self, target), put(self, target, data)
    class      @classmethod def get(cls, target), put(cls, target, data)
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable
from functools import partial, wraps
from types import MethodType
from typing import TYPE_CHECKING, Any

from svc.api.calls import Call
from svc.api.context import AnyContext, context_of, current_context, entered
from svc.api.target import RequestTarget, as_target, target_with
from svc.api.thread_guard import here, refuse_helper
from svc.api.transactions import Transaction, open_transaction, run_in_transaction
from svc.awaitables import then

if TYPE_CHECKING:
    from svc.api.resource import Resource

INSTANCE, TARGET, CLASS, BUILT_IN = range(4)

VERBS = (
    "get", "search", "put", "patch", "post", "delete", "create", "update", "publish", "subscribe", "connect", "invalidate", "query", "copy", "move",
)  # fmt: skip
WITH_DATA = frozenset(("put", "patch", "post", "publish", "create", "query", "copy", "move", "update"))
_WRITING = frozenset(("put", "patch", "post", "create", "delete", "publish", "invalidate"))
_KEY_NAMES = frozenset(("get_id", "id"))
_PREPARED = frozenset(("connect", "subscribe"))  # their second argument may be left out


class Verb:
    """One verb of one class. `style`: one of INSTANCE, TARGET, CLASS, BUILT_IN."""

    __slots__ = ("function", "is_async", "is_called_with_target", "is_plain", "name", "style", "takes")

    def __init__(self, name: str, function: Any, style: int) -> None:
        self.name = name
        self.function = function
        self.style = style
        self.is_plain = style == TARGET or (style == BUILT_IN and name not in WITH_DATA and name not in _WRITING)
        """An instance has it as its function is, whatever the instance is bound to."""
        self.is_called_with_target = name not in WITH_DATA and name != "connect" and (name != "invalidate" or style != INSTANCE)
        written = inspect.unwrap(function)
        self.is_async = inspect.iscoroutinefunction(written) or inspect.isasyncgenfunction(written)
        self.takes = (
            2 if name != "connect" or style == BUILT_IN else _most_arguments(function)
        )  # of `connect`: what a handler does without is left out

    @property
    def takes_messages(self) -> bool:
        """Of `connect`: whether its handler takes the messages of the client."""
        return self.takes > (0 if self.style == INSTANCE else 1)

    @property
    def reads_key(self) -> bool:
        """Whether its handler looks at the key that is asked for, as far as its own code tells."""
        code = getattr(inspect.unwrap(self.function), "__code__", None)
        return code is not None and not _KEY_NAMES.isdisjoint(code.co_names)

    def __get__(self, instance: Resource | None, owner: type[Resource]) -> Any:
        if instance is None:
            return ClassVerb(self, owner)
        if self.is_plain:
            return MethodType(self.function, instance)
        style = self.style
        if style == CLASS:
            return partial(self.function, owner)
        if style == INSTANCE and instance._target is None and instance._id is None:
            return partial(self._bound_anew, owner)  # called with a target by a handler of the target style
        if style == BUILT_IN and instance._target is None and instance._id is None and self.name in WITH_DATA:
            return partial(self._with_target_first, instance)
        if style == BUILT_IN and self.name in _WRITING and open_transaction(instance._writing_context()) is None:
            return partial(self._call_alone, instance)
        return MethodType(self.function, instance)

    def _call_alone(self, instance: Resource, *arguments: Any) -> Call:
        """A write through an instance for which no transaction is open any more: in one of its own."""
        return Call(_write_alone, (self.function, instance, arguments))

    def _with_target_first(self, instance: Resource, *arguments: Any) -> Any:
        """Handlers of the target style call `super().put(target, data)`."""
        target, data = split_arguments(self.name, type(instance), arguments, {})
        return self.function(instance, data, target)

    def _bound_anew(self, owner: type[Resource], target: Any = None, data: Any = None) -> Any:
        return self.call(owner, as_target(target, owner._table, subscribes=self.name in _PREPARED), data, current_context())

    @staticmethod
    async def run_in_context(awaitable: Awaitable[Any], request: AnyContext) -> Any:
        """What a handler has left to be awaited, in the context of its call."""
        with entered(request):
            return await awaitable

    @property
    def place(self) -> str:
        """Where the handler is written: `Seat.get (resources.py:12)`."""
        written = inspect.unwrap(self.function)
        code = getattr(written, "__code__", None)
        name = getattr(written, "__qualname__", self.name)
        return name if code is None else f"{name} ({code.co_filename}:{code.co_firstlineno})"

    @property
    def is_own(self) -> bool:
        """Whether an application has written it."""
        return self.style != BUILT_IN

    def call(self, owner: type[Resource], target: RequestTarget, data: Any, context: AnyContext | None) -> Any:
        """Run the handler for `target`: its result, or an awaitable of it."""
        style = self.style
        if style == CLASS:
            return self.function(owner, target) if self.is_called_with_target else self._with_target(owner, target, data)
        if style == INSTANCE:
            instance = owner._bind(target, context)
            table = owner._table
            if table is not None and table.caching is not None:
                loading = instance._load_first(self.name)
                if loading is not None:
                    return then(loading, lambda _: self.run(instance, target, data))
        else:
            instance = owner(None, context)
        if self.is_called_with_target:
            return self.function(instance, target)
        return self._with_target(instance, target, data) if style == TARGET else self.run(instance, target, data)

    def run(self, instance: Resource, target: RequestTarget, data: Any) -> Any:
        """Call the handler with an instance that is bound to the target."""
        name = self.name
        if name in WITH_DATA:
            return self.function(instance, data, target)
        if name == "connect":
            return self.function(instance, *(data, target)[: self.takes])
        if name == "invalidate" and self.style == INSTANCE:
            return self.function(instance)
        return self.function(instance, target)

    def _with_target(self, owner: Any, target: RequestTarget, data: Any) -> Any:
        if self.name in WITH_DATA:
            return self.function(owner, target, data)
        if self.name == "connect":
            return self.function(owner, *(target, data)[: self.takes])
        return self.function(owner, target)

    def __repr__(self) -> str:
        return f"<Verb {self.name} {('instance', 'target', 'class', 'built in')[self.style]}>"


def _most_arguments(function: Any) -> int:
    """How many of two arguments a function takes, besides what it is bound to."""
    for count in (2, 1):
        try:
            inspect.signature(function).bind(None, *range(count))
        except (TypeError, ValueError):
            continue
        return count
    return 0


class ClassVerb:
    """A verb on the class side: `Product.get`. Calling it returns a `Call`, which is made when it is awaited."""

    __slots__ = ("_owner", "_verb")

    def __init__(self, verb: Verb, owner: type[Resource]) -> None:
        self._verb = verb
        self._owner = owner

    @property
    def __name__(self) -> str:
        return self._verb.name

    def __call__(self, *arguments: Any, context: Any = None, **options: Any) -> Any:
        if here.is_helper:  # at once: a function on a thread cannot await the call, which would say this
            refuse_helper()
        owner, verb = self._owner, self._verb
        direct = owner._direct_calls.get(verb.name) if verb.style == BUILT_IN else None
        if direct is not None:
            return direct(owner, arguments, options, context)
        return Call(make_call, (verb, owner, arguments, options, context))

    def __repr__(self) -> str:
        return f"<{self._owner.__name__}.{self._verb.name}>"


def make_call(verb: Verb, owner: type[Resource], arguments: tuple[Any, ...], options: dict[str, Any], context: Any) -> Any:
    """Sort out the arguments and run the handler, in the open transaction or in one of its own."""
    target, data = split_arguments(verb.name, owner, arguments, options)
    within = current_context() if context is None else context_of(context)
    return run_in_transaction(owner._store(), within, _in_transaction, verb, owner, target, data)


make_call.__qualname__ = "a call of a resource"


def _in_transaction(transaction: Transaction, verb: Verb, owner: type[Resource], target: RequestTarget, data: Any) -> Any:
    context = transaction._context
    if target.check_permission or context.state.authorize:
        return then(owner._check_permission(verb, target, data, context), lambda _: verb.call(owner, target, data, context))
    return verb.call(owner, target, data, context)


def _write_alone(function: Any, instance: Resource, arguments: tuple[Any, ...]) -> Any:
    return run_in_transaction(instance._store(), instance._writing_context(), lambda _: function(instance, *arguments))


_write_alone.__qualname__ = "a write to a record"


def split_arguments(name: str, owner: type[Resource], arguments: tuple[Any, ...], options: dict[str, Any]) -> tuple[RequestTarget, Any]:
    """(target, data) of a class-level call. Raises TypeError for a wrong number of arguments, ClientError for a target that cannot be understood."""
    table = owner._table
    if name in WITH_DATA:
        if "data" in options:
            arguments = (*arguments, options.pop("data"))
        count = len(arguments)
        if count == 2:
            target, data = as_target(arguments[0], table), arguments[1]
        elif count == 1 and name != "update":
            target, data = as_target(None, table), arguments[0]
            if name == "put" and isinstance(data, dict) and table is not None and data.get(table.primary_key) is not None:
                target = as_target(data[table.primary_key], table)
        elif count == 1:
            target, data = as_target(arguments[0], table), None
        else:
            raise TypeError(f"{owner.__name__}.{name} takes a target and data, {count} arguments were given")
    elif name in _PREPARED:
        if len(arguments) > 2:
            raise TypeError(f"{owner.__name__}.{name} takes a target and perhaps one more argument")
        data = arguments[1] if len(arguments) > 1 else options.pop("incoming", None)
        if name == "subscribe" and data is not None:
            options["listener"], data = data, None
        target, options = target_with(arguments[0] if arguments else None, options, table), {}
    else:
        if len(arguments) > 1:
            raise TypeError(f"{owner.__name__}.{name} takes one argument, a target; {len(arguments)} were given")
        given = arguments[0] if arguments else (dict(options) if options else None)
        if arguments and options:
            given = {**(given if isinstance(given, dict) else {"id": given}), **options}
        target, data, options = as_target(given, table), None, {}
        if arguments and given is None and name in ("get", "delete", "invalidate"):
            raise TypeError(f"{owner.__name__}.{name} takes an id or a query, not None")
    for option, value in options.items():
        setattr(target, option, value)
    return target, data


def own_verb(name: str, member: Any, load_as_instance: bool) -> Verb:
    """The verb that an application has written as `member` of a class."""
    if isinstance(member, classmethod):
        return Verb(name, _called_with(member.__func__, name, CLASS), CLASS)
    if isinstance(member, staticmethod):
        raise TypeError(f"{name} cannot be a static method: write @classmethod, whose first argument is the class")
    if not callable(member):
        raise TypeError(f"{name} is a verb of resources and must be a function, not {type(member).__name__}")
    style = INSTANCE if load_as_instance else TARGET
    return Verb(name, _called_with(member, name, style), style)


def _called_with(function: Any, name: str, style: int) -> Any:
    """`function`, or one that is called with what handlers of this verb get, and leaves out what `function` does without: `def get(self)`,
    `def put(self, data)`. Raises TypeError for a function that wants more."""
    if name == "connect":  # which does so itself
        return function
    given = 2 if name in WITH_DATA else 0 if name == "invalidate" and style == INSTANCE else 1
    try:
        signature = inspect.signature(function)
    except ValueError:  # of a function that is not written in Python
        return function
    for count in range(given, -1, -1):
        try:
            signature.bind(None, *range(count))
        except TypeError:
            continue
        return function if count == given else _shortened(function, count)
    names = ("target", "data")[:given] if style != INSTANCE else (("data", "query") if name in WITH_DATA else ("query",))[:given]
    raise TypeError(
        f"{getattr(function, '__qualname__', name)} is called with {' and '.join(names) or 'nothing'}, and wants more: {signature}"
    )


def _shortened(function: Any, count: int) -> Any:
    @wraps(function)
    def handler(bound: Any, *arguments: Any) -> Any:
        return function(bound, *arguments[:count])

    return handler
