"""`Resource`: the base class of everything that an application serves (spec: applications §2)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar, NoReturn

from svc.api.context import AnyContext
from svc.api.instances import Instance
from svc.api.subscriptions import Subscription, empty_subscription
from svc.api.target import RequestTarget
from svc.api.transactions import open_transaction
from svc.api.verbs import BUILT_IN, VERBS, Verb, own_verb
from svc.auth.roles import OPENED
from svc.awaitables import Ready, then
from svc.errors import AccessViolation, MethodNotAllowed
from svc.resources.resource import VERBS as METHODS

if TYPE_CHECKING:
    from svc.store import Store

ALLOW = ("allow_read", "allow_update", "allow_create", "allow_delete")
_READING = frozenset(("get", "search", "query", "subscribe", "connect"))


class Resource(Instance):
    """Something with an address, or a source of data. Subclasses write verbs (`get`, `put`, `post`, ...) as methods, plain or async.

    `load_as_instance = False`: handlers get the target as their first argument and are bound to nothing. Access: super users only, unless `allow_read`,
    `allow_update`, `allow_create`, `allow_delete` say otherwise.
    """

    load_as_instance: ClassVar[bool] = True

    _verbs: ClassVar[Mapping[str, Verb]] = {}
    _direct_calls: ClassVar[Mapping[str, Any]] = {}
    _own_verbs: ClassVar[frozenset[str]] = frozenset()  # written by an application
    _own_rights: ClassVar[frozenset[str]] = frozenset()  # of ALLOW, written by an application
    _served: ClassVar[Any] = None  # of a table: its resource without application code

    # The verbs, put in place below and by subclasses. What they are called with differs by style, so they have no type of their own.
    get: ClassVar[Any]
    search: ClassVar[Any]
    put: ClassVar[Any]
    patch: ClassVar[Any]
    post: ClassVar[Any]
    delete: ClassVar[Any]
    create: ClassVar[Any]
    update: ClassVar[Any]
    publish: ClassVar[Any]
    subscribe: ClassVar[Any]
    connect: ClassVar[Any]
    invalidate: ClassVar[Any]
    query: ClassVar[Any]
    copy: ClassVar[Any]
    move: ClassVar[Any]

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        built_in = bool(cls.__dict__.get("_is_built_in"))
        for name in VERBS:
            member = cls.__dict__.get(name)
            if member is not None and not isinstance(member, Verb):
                setattr(cls, name, Verb(name, member, BUILT_IN) if built_in else own_verb(name, member, cls.load_as_instance))
        _take_stock(cls)

    # --- binding ---------------------------------------------------------------------------------------------------------------------

    @classmethod
    def _bind(cls, target: RequestTarget, context: AnyContext | None) -> Resource:
        """The instance for a target: within a transaction the same one for the same record, with its changes."""
        key = target.id
        transaction = open_transaction(context) if key is not None and cls._table is not None else None
        if transaction is None:
            instance = cls(key, context)
        elif transaction.instances is None:
            instance = cls(key, context)
            transaction.instances = {(cls, key): instance}
        else:
            known: Resource | None = transaction.instances.get((cls, key))
            instance = transaction.instances[(cls, key)] = cls(key, context) if known is None else known
        instance.__dict__["_target"] = target
        if target.rights is not None and context is not None and instance._rows is None and cls._served is not None:
            rows = cls._served.guard(target, context)
            if rows is not None:
                context.is_narrowed = True
                instance._narrow(rows)
        return instance

    def _load_first(self, verb: str) -> Any:
        """An awaitable if the record has to be loaded before the handler of `verb` runs, else None."""
        return None

    @classmethod
    def _store(cls) -> Store:
        return cls._own_interface().store

    # --- permission ------------------------------------------------------------------------------------------------------------------

    def allow_read(self, user: Any, target: Any, /) -> Any:
        """Whether `user` (None: anonymous) may read `target`: asked once for each request of a protocol, before the handler. May return an awaitable."""
        return self._allow_by_default("get", user, None, target)

    def allow_update(self, user: Any, data: Any, target: Any, /) -> Any:
        """Whether `user` may change the record `target` by `data`, the body of the request."""
        return self._allow_by_default("patch", user, data, target)

    def allow_create(self, user: Any, data: Any, target: Any, /) -> Any:
        """Whether `user` may add the record `data` to the collection `target`, or send it as a message."""
        return self._allow_by_default("post", user, data, target)

    def allow_delete(self, user: Any, target: Any, /) -> Any:
        """Whether `user` may delete `target`."""
        return self._allow_by_default("delete", user, None, target)

    def _allow_by_default(self, verb: str, user: Any, data: Any, target: Any) -> bool:
        return user is not None and user.super_user

    @classmethod
    def _right_for(cls, verb: str, target: RequestTarget, instance: Any) -> str:
        """The `allow_` method that a verb asks."""
        if verb in _READING:
            return "allow_read"
        if verb == "delete":
            return "allow_delete"
        if verb == "publish" or verb == "create" or (verb in ("post", "copy", "move") and target.id is None):
            return "allow_create"
        if verb in ("put", "patch", "update") and cls._table is not None and target.id is not None and not instance.does_exist():
            return "allow_create"
        return "allow_update"

    @classmethod
    def _check_permission(cls, verb: Verb, target: RequestTarget, data: Any, context: AnyContext) -> Any:
        """Ask whether the context's user may do it; an awaitable if the answer has to be awaited. Raises AccessViolation."""
        if not cls._own_rights:
            cls._check_default(verb.name, target, data, context)
            return None
        instance = cls._bind(target, context) if cls.load_as_instance else cls(target.id, context)
        if verb.name == "put" and target.id is None and cls._table is not None:  # of records that are there, and of new ones
            updating = cls._ask("allow_update", instance, verb.name, target, data, context)
            return then(updating, lambda _: cls._ask("allow_create", instance, verb.name, target, data, context))
        return cls._ask(cls._right_for(verb.name, target, instance), instance, verb.name, target, data, context)

    @classmethod
    def _ask(cls, right: str, instance: Any, verb: str, target: RequestTarget, data: Any, context: AnyContext) -> Any:
        user = context.user
        if right not in cls._own_rights:
            cls._check_default(verb, target, data, context)
            return None
        arguments = (user, target) if right in ("allow_read", "allow_delete") else (user, data, target)
        return then(getattr(instance, right)(*arguments), lambda answer: cls._allowed(answer, right, user, target))

    @classmethod
    def _allowed(cls, answer: Any, right: str, user: Any, target: RequestTarget) -> None:
        """A right of the class's own has been asked: it opens the whole table, and none that relationships lead to. Raises TypeError for what is
        neither True nor False nor None: a generator, a user or a record would let everyone in."""
        if answer is None or answer is False:
            raise AccessViolation(user)
        if answer is not True:
            raise TypeError(f"{cls.__name__}.{right} must return True or False, not {_kind_of(answer)}")
        if cls._table is not None and target.rights is None:
            target.rights = OPENED

    @classmethod
    def _check_default(cls, verb: str, target: RequestTarget, data: Any, context: AnyContext) -> None:
        if context.user is None or not context.user.super_user:
            raise AccessViolation(context.user)

    # --- verbs that every resource has -------------------------------------------------------------------------------------------------

    @classmethod
    def _refuse(cls, verb: str) -> NoReturn:
        allow = tuple(METHODS[name] for name in METHODS if name in cls._own_verbs)
        method = METHODS.get(verb, verb.upper())
        raise MethodNotAllowed(
            f"The {cls.__name__} does not have a {verb} method implemented to handle HTTP method {method}", (*allow, "OPTIONS")
        )

    @classmethod
    def parse_query(cls, text: str, target: RequestTarget | None = None) -> RequestTarget:
        """The query `text`, that of a URL without its question mark, as a target: `target` with it, or a new one. Raises ClientError 400 that names the
        position of a fault."""
        found = RequestTarget() if target is None else target
        found.query = text.removeprefix("?")
        found.is_collection = found.id is None
        found.query_for(cls._table)
        return found


def _kind_of(answer: Any) -> str:
    name = type(answer).__name__
    return f"a {name}: it has a yield" if name in ("generator", "async_generator") else f"a value of type {name}"


def _missing(name: str) -> Verb:
    def refuse(self: Resource, *arguments: Any) -> NoReturn:
        self._refuse(name)

    refuse.__name__ = name
    return Verb(name, refuse, BUILT_IN)


def _get(self: Resource, target: Any = None) -> Any:
    """Without a `get` of its own, a collection is what `search` finds."""
    if "search" in self._own_verbs and (target is None or target.id is None):
        return self.search(target)
    return self._refuse("get")


def _update(self: Resource, *arguments: Any) -> Any:
    """For records of tables only."""
    raise TypeError(f"{type(self).__name__} has no table whose records could be updated")


def _subscribe(self: Resource, target: Any = None, **options: Any) -> Any:
    """A subscription to nothing, which does not end by itself: what a handler sends to it is all there is."""
    subscription = empty_subscription(self._own_interface())
    options = (isinstance(target, RequestTarget) and target.subscription_options) or options
    return subscription if options.get("listener") is None else subscription.on("data", options["listener"])


def _connect(self: Resource, *arguments: Any) -> Any:
    """The subscription; messages of the client are ignored."""
    given = [argument for argument in arguments if isinstance(argument, RequestTarget)]
    subscription = self.subscribe(given[0] if given else self._target)
    return Ready(subscription) if hasattr(subscription, "__aiter__") and not isinstance(subscription, Subscription) else subscription


def _take_stock(cls: type[Resource]) -> None:
    verbs = {name: verb for name in VERBS if isinstance(verb := _find(cls, name), Verb)}
    cls._verbs = verbs
    cls._own_verbs = frozenset(name for name, verb in verbs.items() if verb.is_own)
    cls._own_rights = frozenset(name for name in ALLOW if not getattr(_find(cls, name), "_is_default", False))


def _find(cls: type, name: str) -> Any:
    return next((base.__dict__[name] for base in cls.__mro__ if name in base.__dict__), None)


for _name in VERBS:
    setattr(Resource, _name, _missing(_name))
Resource.get = Verb("get", _get, BUILT_IN)
Resource.update = Verb("update", _update, BUILT_IN)
Resource.subscribe = Verb("subscribe", _subscribe, BUILT_IN)
Resource.connect = Verb("connect", _connect, BUILT_IN)
for _name in ALLOW:
    getattr(Resource, _name)._is_default = True
_take_stock(Resource)
