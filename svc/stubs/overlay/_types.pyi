"""Types of what applications get from svc. Written by `svc types`; do not edit."""

import builtins
from collections.abc import (
    AsyncIterable,
    AsyncIterator,
    Awaitable,
    Callable,
    Coroutine,
    Generator,
    Iterable,
    Iterator,
    Mapping,
    MutableMapping,
    Sequence,
)
from collections.abc import Set as AbstractSet
from datetime import date, datetime
from types import TracebackType
from typing import Any, ClassVar, Generic, Literal, ParamSpec, Protocol, Required, Self, TypeAlias, TypedDict, TypeVar, overload

_T = TypeVar("_T")
_U = TypeVar("_U")
_T_co = TypeVar("_T_co", covariant=True)
_P = ParamSpec("_P")
_Instance = TypeVar("_Instance")
_Key = TypeVar("_Key")
_Record = TypeVar("_Record")
_Data = TypeVar("_Data")
_Changes = TypeVar("_Changes")
_Condition = TypeVar("_Condition")
_Sort = TypeVar("_Sort")
_Query = TypeVar("_Query")
_RecordQuery = TypeVar("_RecordQuery")
_SubscriptionQuery = TypeVar("_SubscriptionQuery")
_Selection = TypeVar("_Selection")
_Explanation = TypeVar("_Explanation")
_Select = TypeVar("_Select")

# --- values -----------------------------------------------------------------------------------------------------------------------------

AnyKey: TypeAlias = str | int | float
SegmentedKey: TypeAlias = str | int | float | list[str | int | float] | tuple[str | int | float, ...]
DateValue: TypeAlias = datetime | date | str | float
BlobValue: TypeAlias = Blob | bytes | str
"""What a condition compares a date with: a date, ISO 8601, or ms since 1970."""

Increment = TypedDict("Increment", {"__op__": Required[Literal["add"]], "value": Required[float]})
"""In changes: add to the number that is stored."""

class Blob:
    """Content with a media type, however long: a value of a record. Made by `create_blob`; a record that is read has it again."""

    def __init__(self, content: builtins.bytes | memoryview | None = None, type: str | None = None) -> None:
        """A blob that holds its content, however long; most callers want `create_blob`. Raises BadValue if `type` is not a media type."""
    async def bytes(self) -> builtins.bytes:
        """The whole content."""
    def stream(self, start: int = 0, end: int | None = None) -> AsyncIterator[builtins.bytes]:
        """The content from `start` to before `end`, in pieces. Waits for what is still arriving."""
    def on(self, name: Literal["size", "error"], callback: Callable[[Any], object]) -> None:
        """Call `callback` with the size (`name`: "size") or with the exception ("error") when it is known; at once if it is."""
    @property
    def type(self) -> str:
        """The media type."""
    @property
    def size(self) -> int | None:
        """Bytes; None while unknown, because the content is still arriving."""
    async def text(self) -> str:
        """The whole content as text, in the charset of its type or UTF-8; what is not valid is replaced."""
    def slice(self, start: int, end: int | None = None, type: str | None = None) -> Blob:
        """The part from `start` to before `end`, as a blob with the media type `type`; negative positions count from the end. Stored in a record, it is a
        copy.
        """
    @property
    def written(self) -> Awaitable[None]:
        """Done when the whole content is on disk, or in the record; raises what prevented that."""

def create_blob(
    data: Any,
    *,
    type: str | None = None,
    size: int | None = None,
    save_before_commit: bool = False,
    compress: bool = False,
    flush: bool = False,
) -> Blob:
    """A blob of `data`: bytes, a text (as UTF-8, by default `text/plain`), a file object, an iterable or an async iterable of bytes.

    `type`: the media type. `size`: of the content, if the caller knows it. `save_before_commit`: the record that has it is not committed before all
    content is on disk; always so, but for an async iterable, which without it may still be arriving long after. `compress` and `flush` are accepted and
    change nothing: files are kept as they are, and are on disk when `written` is done. Raises BadValue for anything else.

    `text/plain` in UTF-8 is `text/plain`: HTTP shows it with its charset, so that the two could not be distinguished when they come back.
    """

# --- calls and results ------------------------------------------------------------------------------------------------------------------

Call: TypeAlias = Coroutine[Any, Any, _T]
"""A call that has not been made yet. It is made once: when it is awaited, or when a handler returns it. Its own type is that of coroutines, of which
checkers say when they are not awaited."""

class OpenCall(Coroutine[Any, Any, Any]):
    """A call whose result depends on what it addresses: a record, or results that are iterated."""

    def __await__(self) -> Generator[Any, Any, Any]: ...
    def __aiter__(self) -> AsyncIterator[Any]: ...
    def send(self, value: Any, /) -> Any: ...
    def throw(self, *error: Any) -> Any: ...
    def close(self) -> None: ...

class Items(Generic[_T_co]):
    """Items that are made while they are iterated. What `map`, `filter` and the others return are new ones; nothing runs before the first step.
    Awaited, it is itself. Leaving an `async for` early closes it, and what it is made of.
    """

    @overload
    def map(self, function: Callable[[_T_co], Awaitable[_U]]) -> Items[_U]:
        """`function(item)` in place of each item; `function` may be async."""
    @overload
    def map(self, function: Callable[[_T_co], _U]) -> Items[_U]: ...
    @overload
    def flat_map(self, function: Callable[[_T_co], AsyncIterable[_U] | Iterable[_U]]) -> Items[_U]:
        """All items of the iterable `function(item)`, of each item; `function` may be async."""
    @overload
    def flat_map(self, function: Callable[[_T_co], Awaitable[AsyncIterable[_U] | Iterable[_U]]]) -> Items[_U]: ...
    def __aiter__(self) -> AsyncIterator[_T_co]: ...
    def __await__(self) -> Generator[Any, Any, Self]: ...
    async def aclose(self) -> None:
        """End the iteration, and what it holds."""
    def filter(self, function: Callable[[_T_co], object]) -> Items[_T_co]:
        """The items for which `function(item)` is true."""
    def concat(self, other: AsyncIterable[_U] | Iterable[_U]) -> Items[_T_co | _U]:
        """These items, then those of `other`."""
    def slice(self, start: int = 0, end: int | None = None) -> Items[_T_co]:
        """The items from position `start` to before `end`."""
    def map_error(self, function: Callable[[Exception], _U]) -> Items[_T_co | _U]:
        """`function(error)` as the last item if making an item fails; what `function` raises is raised instead."""
    async def for_each(self, function: Callable[[_T_co], object]) -> None:
        """Call `function` with each item."""
    async def to_list(self) -> list[_T_co]:
        """All items."""

class Results(Items[_T_co]):
    """The records that a search finds: `async for record in results`, or `await results.to_list()`. Awaited, it is itself, or its plan with `explain`.
    A faulty query raises when it is awaited or at the first step. What a handler returns is sent to the client while it is found.
    """
    async def first(self) -> _T_co | None:
        """The first item; None without any."""
    def columns(self) -> list[str]:
        """The names of a table of the results: those selected, else the stored attributes that are declared."""

class Plan(Results[Any]):
    """How a query would be carried out: awaited, it is that."""

    def __await__(self) -> Generator[Any, Any, Any]: ...

class RelatedRecord(Items[_T_co]):
    """The one record that a relationship leads to: awaited, it is that record or None."""

    def __await__(self) -> Generator[Any, Any, _T_co | None]: ...  # type: ignore[override] # pyright: ignore[reportIncompatibleMethodOverride]

class Event(Mapping[str, Any]):
    """What has happened to a record, or was said about it: a mapping of its members, which are also attributes."""

    @property
    def type(self) -> str:
        """`put`, `patch`, `delete`, `message`, `invalidate` and others."""
    @property
    def version(self) -> float: ...
    @property
    def timestamp(self) -> float: ...
    @property
    def id(self) -> Any: ...
    @property
    def value(self) -> Any: ...
    @property
    def local_time(self) -> int:
        """Where its change, or the current record, is in the log."""
    @property
    def user(self) -> str | None: ...
    def __getitem__(self, name: str) -> Any: ...
    def __iter__(self) -> Iterator[str]: ...
    def __len__(self) -> int: ...

class Subscription:
    """Events, and what is sent with `send`: iterated, or passed to callbacks with `on("data", callback)`. It may be awaited, and is itself then.

    A handler of `connect` may return it; then its client gets what comes. One that nobody uses any more ends by itself.
    """

    async def __anext__(self) -> Event: ...
    @overload
    def on(self, name: Literal["data"], callback: Callable[[Any], Any]) -> Subscription:
        """`name` "data": `callback` is called with each event, one after the other. "close": it is called at the end; one with a parameter gets the reason,
        a text. It may be async.
        """
    @overload
    def on(self, name: Literal["close"], callback: Callable[..., Any]) -> Subscription: ...
    def __await__(self) -> Generator[Any, Any, Self]: ...
    def __aiter__(self) -> Self: ...
    async def aclose(self) -> None: ...
    @property
    def ended(self) -> bool:
        """Whether nothing more will come."""
    def send(self, event: Any) -> None:
        """Deliver `event`, which may be anything, behind the events of all commits up to now."""
    def end(self) -> None:
        """End it. What is queued can still be taken."""

class SubscriptionCall(Coroutine[Any, Any, Subscription]):
    def __await__(self) -> Generator[Any, Any, Subscription]: ...
    def send(self, value: Any, /) -> Any: ...
    def throw(self, *error: Any) -> Any: ...
    def close(self) -> None: ...
    def __aiter__(self) -> AsyncIterator[Event]: ...

class HistoryEntry(dict[str, Any]):
    """One entry of the transaction log; its members are also attributes."""

    type: str
    id: Any
    value: Any
    version: float
    timestamp: float
    local_time: int
    user: str | None
    node: Any
    previous_local_time: int | None
    expires_at: float | None
    operation: str | None

class RecordCount(dict[str, Any]):
    """`record_count`, `estimated_range`: also as attributes."""

    record_count: int
    estimated_range: list[int]

# --- queries ----------------------------------------------------------------------------------------------------------------------------

Comparator: TypeAlias = Literal[
    "equals", "not_equal", "greater_than", "greater_than_equal", "less_than", "less_than_equal", "starts_with", "ends_with", "contains",
    "eq", "ne", "gt", "ge", "lt", "le", "sw", "ew", "ct", "equal", "=", "==", "===", "!=", "!==", ">", ">=", "<", "<=",
]  # fmt: skip
RangeComparator: TypeAlias = Literal["between", "gelt", "gtle", "gtlt", "gele", "..."]
Operator: TypeAlias = Literal["and", "or"]

class Options(TypedDict, total=False):
    """How a query of code is run."""

    allow_full_scan: bool
    only_if_cached: bool
    no_cache: bool
    no_cache_store: bool
    stale_if_error: bool
    must_revalidate: bool
    check_permission: bool

class Window(Options, total=False):
    """Which of the records that are found are wanted."""

    operator: Operator
    limit: int
    offset: int
    enforce_execution_order: bool
    after: str

class SubscriptionOptions(TypedDict, total=False):
    """Which events are wanted."""

    is_collection: bool
    operator: Operator
    live: bool
    limit: int
    include_descendants: bool
    only_children: bool
    start_time: float | datetime
    previous_count: int
    omit_current: bool
    raw_events: bool
    supports_transactions: bool
    listener: Callable[[Event], Any]

class PathCondition(TypedDict, total=False):
    """Compares what a list of names leads to: `["brand", "country"]`."""

    attribute: Required[list[str]]
    comparator: Comparator
    value: Required[Any]

class PathRange(TypedDict, total=False):
    attribute: Required[list[str]]
    comparator: Required[RangeComparator]
    value: Required[list[Any] | tuple[Any, Any]]

class InnerSelected(TypedDict, total=False):
    select: str | list[Any]
    as_array: bool
    conditions: list[Any]
    operator: Operator
    sort: InnerSort
    limit: int
    offset: int

class InnerSelection(InnerSelected, total=False):
    """What is wanted of a nested object, or of records that related records lead to."""

    name: Required[str]

class InnerSort(TypedDict, total=False):
    attribute: Required[str | list[str]]
    descending: bool
    next: InnerSort

class InnerGroup(TypedDict, total=False):
    """A group of conditions in another group."""

    operator: Operator
    conditions: Required[list[Any]]

class InnerFilter(TypedDict, total=False):
    """Conditions of records that related records lead to."""

    attribute: Required[str]
    operator: Operator
    conditions: Required[list[Any]]

# --- what is addressed ------------------------------------------------------------------------------------------------------------------

class RequestTarget:
    """A record, a collection, a property, with a query.

    `RequestTarget("/42?select(name)")` is made of an address below the resource; attributes of the query object (`conditions`, `limit`, `select`, ...) may be
    read and set. It is also a mapping with several values for a name of the plain parameters of its query: `get`, `get_all`, `set`, `append`, `delete`, `has`.
    """

    id: Any
    is_collection: bool
    property: str | None
    check_permission: bool
    loaded_from_source: bool | None
    conditions: Any
    operator: Any
    limit: int | None
    offset: int | None
    select: Any
    sort: Any
    explain: bool
    enforce_execution_order: bool
    aggregate: Any
    after: Any
    live: bool
    as_array: bool

    @builtins.property
    def pathname(self) -> str:
        """The path below the resource, percent-encoded: "/42"; "" for the resource itself."""
    @builtins.property
    def search(self) -> str:
        """The query with its question mark; "" without one."""
    @builtins.property
    def parse_error(self) -> Exception | None:
        """Why the query cannot be understood; None if it can."""
    def __getattr__(self, name: str) -> Any:
        """Keys of the query object and its options, and the values of parameters of the path."""
    @overload
    def get(self, name: str) -> str | None:
        """The first value of the plain parameter `name`, or `default`: of `?zone=UTC`, `get("zone")` is "UTC"."""
    @overload
    def get(self, name: str, default: _T) -> str | _T: ...
    def __init__(self, address: str | None = None) -> None:
        """Raises ClientError 400 for an address that cannot be understood."""
    def __iter__(self) -> Iterator[tuple[str, str]]:
        """(name, value) of the plain parameters."""
    def get_all(self, name: str) -> list[str]:
        """All values of the plain parameter `name`, in their order."""
    def has(self, name: str) -> bool:
        """Whether there is a plain parameter `name`."""
    def append(self, name: str, value: Any) -> None:
        """Add a parameter, `name=value`: it is a condition as well."""
    def delete(self, name: str) -> None:
        """Remove all values of the parameter `name`, with the conditions that they are."""
    def set(self, name: str, value: Any) -> None:
        """Replace all values of the parameter `name` by `value`."""

# --- records ----------------------------------------------------------------------------------------------------------------------------

class Record(Mapping[str, Any], Generic[_Key]):
    """A record as it was read: `record.name` or `record["name"]`. It cannot be changed; `{**record, "x": 1}` is a changed copy.

    A declared attribute without a value is None, any other name an AttributeError or KeyError. An attribute that leads to related records is awaited or
    iterated: `await seat.show`, `async for seat in show.seats`.
    """

    def get_id(self) -> _Key:
        """The primary key; None if it was not selected."""
    def __getitem__(self, name: str) -> Any: ...
    def __iter__(self) -> Iterator[str]: ...
    def __len__(self) -> int: ...
    def get_updated_time(self) -> float | None:
        """The version: ms since the epoch. None for a selection."""
    def get_expires_at(self) -> float | None:
        """Ms since the epoch; None if it stays."""

# --- verbs ------------------------------------------------------------------------------------------------------------------------------
# On a class, a verb is called with what it addresses and is awaited. A class of an application writes it as a method, with the arguments that it
# needs: so that this is no fault, a verb of an instance has any signature.

class OpenVerb(Protocol):
    def __call__(self, *arguments: Any, **options: Any) -> Any: ...
    @overload
    def __get__(self, instance: None, owner: type[Any], /) -> Callable[..., Any]: ...
    @overload
    def __get__(self, instance: object, owner: type[Any] | None = None, /) -> Callable[..., Any]: ...

class ClassGet(Generic[_Key, _Record, _RecordQuery, _Query, _Selection, _Condition, _Sort, _Select]):
    @overload
    def __call__(self, id: _Key, /, *, context: Any = None) -> Call[_Record | None]:
        """The record, or None."""
    @overload
    def __call__(self, query: _RecordQuery | RequestTarget, /, *, context: Any = None) -> OpenCall:
        """A selection of a record, or what a target addresses."""
    @overload
    def __call__(self, query: _Selection, /, *, context: Any = None) -> Results[Any]:
        """What a query selects of the records that it finds, or counts."""
    @overload
    def __call__(self, query: _Query | list[_Condition], /, *, context: Any = None) -> Results[_Record]:
        """The records that a query finds."""
    @overload
    def __call__(self, id: _Key, /, *, select: _Select | list[_Select], context: Any = None) -> Call[Any]: ...
    @overload
    def __call__(
        self,
        *,
        conditions: list[_Condition],
        operator: Operator = "and",
        sort: _Sort = ...,
        limit: int = ...,
        offset: int = 0,
        allow_full_scan: bool = True,
        context: Any = None,
    ) -> Results[_Record]: ...
    @overload
    def __call__(self, *, context: Any = None) -> OpenCall: ...

class ClassSearch(Generic[_Record, _Query, _Selection, _Explanation, _Condition, _Sort, _Select]):
    @overload
    def __call__(self, query: _Selection | RequestTarget, /, *, context: Any = None) -> Results[Any]:
        """What a query selects of the records that it finds, or counts."""
    @overload
    def __call__(self, query: _Explanation, /, *, context: Any = None) -> Plan:
        """How the query would be carried out."""
    @overload
    def __call__(self, query: _Query | list[_Condition], /, *, context: Any = None) -> Results[_Record]:
        """The records that a query finds: awaited or iterated."""
    @overload
    def __call__(
        self,
        *,
        conditions: list[_Condition] = ...,
        operator: Operator = "and",
        sort: _Sort = ...,
        limit: int = ...,
        offset: int = 0,
        enforce_execution_order: bool = False,
        after: str = ...,
        allow_full_scan: bool = True,
        context: Any = None,
    ) -> Results[_Record]: ...
    @overload
    def __call__(
        self,
        *,
        select: _Select | list[_Select],
        as_array: bool = False,
        conditions: list[_Condition] = ...,
        operator: Operator = "and",
        sort: _Sort = ...,
        limit: int = ...,
        offset: int = 0,
        enforce_execution_order: bool = False,
        after: str = ...,
        allow_full_scan: bool = True,
        context: Any = None,
    ) -> Results[Any]: ...

class ClassPut(Generic[_Key, _Data]):
    @overload
    def __call__(self, target: _Key | RequestTarget, record: _Data, /, *, context: Any = None) -> Call[None]:
        """Store a record in place of what was there."""
    @overload
    def __call__(self, record: _Data | list[_Data], /, *, context: Any = None) -> Call[None]:
        """Store a record, or each of a list, under the key in it."""

class ClassPatch(Generic[_Key, _Changes]):
    def __call__(self, target: _Key | RequestTarget, changes: _Changes, /, *, context: Any = None) -> Call[None]:
        """Change these properties of the record and leave the others."""

class Verb(Protocol[_T_co]):
    def __call__(self, *arguments: Any, **options: Any) -> Any: ...
    @overload
    def __get__(self, instance: None, owner: type[Any], /) -> _T_co: ...
    @overload
    def __get__(self, instance: object, owner: type[Any] | None = None, /) -> Callable[..., Any]: ...

class PostVerb(Protocol[_Data]):
    def __call__(self, *arguments: Any, **options: Any) -> Any: ...
    @overload
    def __get__(self, instance: None, owner: type[_T], /) -> ClassPost[_T, _Data]: ...
    @overload
    def __get__(self, instance: object, owner: type[Any] | None = None, /) -> Callable[..., Any]: ...

class ClassPost(Generic[_Instance, _Data]):
    @overload
    def __call__(self, record: _Data, /, *, context: Any = None) -> Call[_Instance]:
        """Create a record."""
    @overload
    def __call__(self, records: list[_Data], /, *, context: Any = None) -> Call[list[_Instance]]:
        """Create each record."""
    @overload
    def __call__(self, target: Any, data: Any, /, *, context: Any = None) -> Call[Any]: ...

class CreateVerb(Protocol[_Data]):
    def __call__(self, *arguments: Any, **options: Any) -> Any: ...
    @overload
    def __get__(self, instance: None, owner: type[_T], /) -> ClassCreate[_T, _Data]: ...
    @overload
    def __get__(self, instance: object, owner: type[Any] | None = None, /) -> Callable[..., Any]: ...

class ClassCreate(Generic[_Instance, _Data]):
    @overload
    def __call__(self, record: _Data, /, *, context: Any = None) -> Call[_Instance]:
        """Create a record under a new key, or under the one it has; returns it."""
    @overload
    def __call__(self, prefix: str | RequestTarget, record: _Data, /, *, context: Any = None) -> Call[_Instance]: ...

class UpdateVerb(Protocol[_Key, _Changes]):
    def __call__(self, *arguments: Any, **options: Any) -> Any: ...
    @overload
    def __get__(self, instance: None, owner: type[_T], /) -> ClassUpdate[_T, _Key, _Changes]: ...
    @overload
    def __get__(self, instance: object, owner: type[Any] | None = None, /) -> Callable[..., Any]: ...

class ClassUpdate(Generic[_Instance, _Key, _Changes]):
    def __call__(self, target: _Key | RequestTarget, changes: _Changes | None = None, /, *, context: Any = None) -> Call[_Instance]:
        """The record, whose changes are saved from now on."""

class ClassDelete(Generic[_Key, _Query, _Condition, _Sort]):
    @overload
    def __call__(self, target: _Key | RequestTarget | _Query | list[_Condition], /, *, context: Any = None) -> Call[bool]:
        """Delete the record, or all that a query finds. True, also if nothing was there."""
    @overload
    def __call__(
        self, *, conditions: list[_Condition], operator: Operator = "and", sort: _Sort = ..., limit: int = ..., context: Any = None
    ) -> Call[bool]: ...

class ClassPublish(Generic[_Key]):
    @overload
    def __call__(self, target: _Key | RequestTarget | None, message: Any, /, *, context: Any = None) -> Call[None]:
        """Send a message to the subscribers of the record, or of the table. No record changes."""
    @overload
    def __call__(self, message: Any, /, *, context: Any = None) -> Call[None]: ...

class ClassSubscribe(Generic[_Key, _SubscriptionQuery, _Condition, _Sort, _Select]):
    def __call__(
        self,
        request: _Key | RequestTarget | _SubscriptionQuery | list[_Condition] | None = None,
        /,
        *,
        is_collection: bool = False,
        conditions: list[_Condition] = ...,
        operator: Operator = "and",
        select: _Select | list[_Select] = ...,
        live: bool = False,
        sort: _Sort = ...,
        limit: int = ...,
        include_descendants: bool = False,
        only_children: bool = False,
        start_time: float | datetime = ...,
        previous_count: int = ...,
        omit_current: bool = False,
        raw_events: bool = False,
        supports_transactions: bool = False,
        listener: Callable[[Event], Any] = ...,
        context: Any = None,
    ) -> SubscriptionCall:
        """The events of the record, of those below it, or of the table: first what is there, then what is committed."""

class ClassInvalidate(Generic[_Key]):
    def __call__(self, target: _Key | RequestTarget, /, *, context: Any = None) -> Call[None]:
        """Say that what is known of the record does not hold any more."""

# --- resources --------------------------------------------------------------------------------------------------------------------------

class Instance:
    """A resource bound to what is addressed: a record, a collection, or nothing (`load_as_instance = False`).

    Attributes of the record are read and written as `self.price`, `self["price"]`, or by `get_property` and `set`; those whose names are taken by methods by
    `[]` only. Names that begin with an underscore are ordinary Python attributes. What is written is stored when `update()` has been called before, else it
    only changes the answer.
    """
    def __init__(self, id: Any = None, context: Any = None) -> None: ...
    def get_id(self) -> Any:
        """The primary key of the record; None for a collection."""
    @property
    def is_collection(self) -> bool:
        """Whether it is bound to a collection, not to a record."""
    def get_context(self) -> Any:
        """The request, or the context of code that runs without one."""
    def get_current_user(self) -> User | None:
        """The user that the call is made for; None: anonymous."""
    def does_exist(self) -> bool:
        """Whether the record exists."""
    def was_loaded_from_source(self) -> bool | None:
        """Whether reading the record has asked the source of a caching table; None without one."""

class Resource(Instance):
    """Something with an address, or a source of data. Subclasses write verbs (`get`, `put`, `post`, ...) as methods, plain or async.

    `load_as_instance = False`: handlers get the target as their first argument and are bound to nothing. Access: super users only, unless `allow_read`,
    `allow_update`, `allow_create`, `allow_delete` say otherwise.
    """

    load_as_instance: ClassVar[bool]
    get: OpenVerb
    search: OpenVerb
    put: OpenVerb
    patch: OpenVerb
    post: OpenVerb
    delete: OpenVerb
    create: OpenVerb
    update: OpenVerb
    publish: OpenVerb
    subscribe: OpenVerb
    connect: OpenVerb
    invalidate: OpenVerb
    query: OpenVerb
    copy: OpenVerb
    move: OpenVerb
    def allow_read(self, user: Any, target: Any, /) -> Any:
        """Whether `user` (None: anonymous) may read `target`: asked once for each request of a protocol, before the handler. May return an awaitable."""
    def allow_update(self, user: Any, data: Any, target: Any, /) -> Any:
        """Whether `user` may change the record `target` by `data`, the body of the request."""
    def allow_create(self, user: Any, data: Any, target: Any, /) -> Any:
        """Whether `user` may add the record `data` to the collection `target`, or send it as a message."""
    def allow_delete(self, user: Any, target: Any, /) -> Any:
        """Whether `user` may delete `target`."""
    @classmethod
    def parse_query(cls, text: str, target: RequestTarget | None = None) -> RequestTarget:
        """The query `text`, that of a URL without its question mark, as a target: `target` with it, or a new one. Raises ClientError 400 that names the
        position of a fault.
        """

class Table(Resource, Generic[_Key]):
    """`tables.Product`: a table as a resource. Its verbs are called on the class and awaited; a class derived from it overrides them.

    `target`: an id, a `RequestTarget`, or a query object.
    """

    primary_key: ClassVar[str]
    table_name: ClassVar[str]
    database_name: ClassVar[str]
    attributes: ClassVar[list[dict[str, Any]]]
    indices: ClassVar[list[str]]
    audit: ClassVar[bool]
    sealed: ClassVar[bool]
    replicate: ClassVar[bool]
    schema_defined: ClassVar[bool]
    split_segments: ClassVar[bool]
    expiration_ms: ClassVar[float | None]
    is_caching: ClassVar[bool]

    def __await__(self) -> Generator[Any, Any, Self]:
        """`await self.update()` is the instance."""
    def __getitem__(self, name: str, /) -> Any: ...
    def __delitem__(self, name: str, /) -> None: ...
    def get_id(self) -> _Key | None:
        """The primary key of the record; None for a collection."""
    def validate(self, record: Any, partial: bool = False) -> Any:
        """Check `record` before it is committed; `partial`: it has only the properties that change. Subclasses add rules: raise ClientError. May be async."""
    @classmethod
    def as_user(cls, user: User | str | None) -> Any:
        """The table as `user` sees and writes it: by the rights of the user's role and the rules about rows. `user`: a user, as from `server.get_user`, or the
        name of one; None: an anonymous caller. Raises ClientError for a name that no active user has.

        `await tables.Issue.as_user("ann").get("7")`, `async for issue in tables.Issue.as_user(user).search({...})`.
        """
    @classmethod
    def get_new_id(cls) -> _Key:
        """A key that no record has: a UUID, or the next number. Raises ClientError if keys have to be given."""
    @classmethod
    def coerce_id(cls, text: Any) -> _Key:
        """The key that `text` stands for in an address. Raises ClientError."""
    def __contains__(self, name: object) -> bool: ...
    def __iter__(self) -> Iterator[str]: ...
    def keys(self) -> list[str]:
        """The names of the properties: `{**self}` is a copy of the record."""
    def get_property(self, name: str) -> Any:
        """The value of the attribute `name`. A declared one without a value is None. Raises KeyError."""
    def get_updated_time(self) -> float | None:
        """The version of the stored record, ms since the epoch; None: there is none."""
    def get_expires_at(self) -> float | None:
        """When the record expires, ms since the epoch; None if it stays."""
    def set(self, name: str, value: Any) -> None:
        """Change the property `name` to `value`. It need not be declared by the schema."""
    def delete_property(self, name: str) -> None:
        """Remove the property `name` from the record."""
    def save(self) -> Awaitable[Any]:
        """Save the changes now: in the open transaction, or without one in one of their own. What it returns need not be awaited."""
    def ensure_loaded(self) -> Awaitable[Any]:
        """Have the record of a table with a source loaded, if it is not here or is stale: `await self.ensure_loaded()`."""
    def allow_stale_while_revalidate(self, entry: Any, id: Any, /) -> bool:
        """Whether a stale record, `entry`, with the key `id`, is served while it is loaded behind the answer. For tables with a source; subclasses say
        otherwise.
        """
    @classmethod
    def source_from(cls, source: Any, given: Mapping[str, Any] | None = None, /, **options: Any) -> None:
        """Make the table a cache of `source`: a resource class, or an object with `get(id, context)` and perhaps `put`, `delete`, `subscribe` and others.

        `given`, `options`: a mapping or keyword arguments. `expiration`, `eviction`, `scan_interval`: seconds, as of `@table`. `intermediate_source`: it
        is asked before the canonical one. Raises ClientError for a second canonical source.
        """
    @classmethod
    async def get_record_count(cls, exact_count: bool = False) -> RecordCount:
        """The number of records. It is always exact, `exact_count` or not."""
    @classmethod
    async def get_size(cls) -> int:
        """Bytes of the records."""
    @classmethod
    async def get_audit_size(cls) -> int:
        """Entries of the transaction log about this table."""
    @classmethod
    async def get_storage_stats(cls) -> dict[str, Any]:
        """Bytes of the records and of the whole database, free ones among them, and the number of records."""
    @classmethod
    def set_ttl_expiration(
        cls,
        seconds: float | Mapping[str, Any] | None = None,
        *,
        expiration: float | None = None,
        eviction: float | None = None,
        scan_interval: float | None = None,
        scanInterval: float | None = None,
    ) -> None:
        """How long records last from their last write, in seconds, as the arguments of `@table`.

        `seconds`: the same as `expiration`, from when they are stale; or a mapping of all. `eviction`: further seconds until they are removed.
        `scan_interval`, `scanInterval`: between two looks for them. Raises ClientError.
        """
    @classmethod
    def set_computed_attribute(cls, name: str, function: Callable[[Any], Any]) -> None:
        """Give the attribute `name`, which is declared `@computed`, the `function` of a record that computes it. Any other name is logged and has no effect.
        What the function raises is logged, the first time, and there is no value.
        """
    @classmethod
    async def operation(cls, operation: Mapping[str, Any], authorize: bool = False) -> Any:
        """Run `operation` on this table: a mapping, to which `database` and `table` are added. Rights are checked only with `authorize`."""
    @classmethod
    async def add_attributes(cls, attributes: Iterable[str | Mapping[str, Any]]) -> None:
        """Add `attributes`: names, or `{"name": ...}`."""
    @classmethod
    async def remove_attributes(cls, names: Iterable[str]) -> None:
        """Remove the attributes `names`, from the records as well."""
    @classmethod
    async def drop_table(cls) -> None:
        """Remove the table with all its records."""
    @classmethod
    def enable_auditing(cls, enabled: bool = True) -> None:
        """Whether the transaction log keeps records as they were before a change: yes if `enabled`."""
    @classmethod
    def get_history(cls, start: float = 0, end: float | None = None) -> Items[HistoryEntry]:
        """The entries of the transaction log from `start` to before `end`, ms since the epoch, oldest first."""
    @classmethod
    async def get_history_of_record(cls, id: Any) -> list[HistoryEntry]:
        """The entries of the record with the key `id`, oldest first."""
    @classmethod
    async def delete_history(cls, end_time: float, cleanup_deleted_records: bool = False) -> int:
        """Remove the entries before `end_time`, ms since the epoch; how many. Marks of deleted records go with their entries, `cleanup_deleted_records` or
        not.
        """

class RecordMade(Generic[_Record, _Data]):
    @overload
    def __call__(self, record: _Data, /) -> Call[_Record]:
        """Create a record. Returns what the user may read of it."""
    @overload
    def __call__(self, records: list[_Data], /) -> Call[list[_Record]]:
        """Create each record."""
    @overload
    def __call__(self, target: Any, data: Any, /) -> Call[Any]: ...

class TableAsUser(
    Generic[
        _Key, _Record, _Data, _Changes, _Query, _RecordQuery, _SubscriptionQuery, _Selection, _Explanation, _Condition, _Sort, _Select
    ]
):  # fmt: skip
    """`tables.Product.as_user("ann")`: the verbs of a table, with which records are seen and written as this user would see and write them.

    The rights of the user's role and the rules about rows hold: what may not be read is not there, attributes without the right to read are left out, related
    records too, and what may not be written is refused, as over any interface. Calls take part in the open transaction, and see what was written in it.
    """

    @property
    def user(self) -> User | None:
        """Whose rights count; None: an anonymous caller. Raises ClientError 404 for a name that no active user has."""
    get: ClassGet[_Key, _Record, _RecordQuery, _Query, _Selection, _Condition, _Sort, _Select]
    search: ClassSearch[_Record, _Query, _Selection, _Explanation, _Condition, _Sort, _Select]
    query: ClassSearch[_Record, _Query, _Selection, _Explanation, _Condition, _Sort, _Select]
    put: ClassPut[_Key, _Data]
    patch: ClassPatch[_Key, _Changes]
    post: RecordMade[_Record, _Data]
    create: RecordMade[_Record, _Data]
    delete: ClassDelete[_Key, _Query, _Condition, _Sort]
    publish: ClassPublish[_Key]
    subscribe: ClassSubscribe[_Key, _SubscriptionQuery, _Condition, _Sort, _Select]

class Tables(type, Mapping[str, type[Any]]):
    """The tables of one database: `tables.Product` or `tables["Product"]` is the class of a table."""

    def __iter__(cls) -> Iterator[str]: ...
    def __len__(cls) -> int: ...
    def __getitem__(cls, name: str, /) -> type[Any]: ...

class Databases(type, Mapping[str, Any]):
    """All databases: `databases.shop.Product`, `databases["shop"]["Product"]`."""

    def __iter__(cls) -> Iterator[str]: ...
    def __len__(cls) -> int: ...
    def __getitem__(cls, name: str, /) -> Mapping[str, type[Any]]: ...

class Entry:
    """What answers at an address. `relative_url`: of a match, what follows the address, percent-encoded: "" or "/42". `fault`: why every request there is
    answered 500, "" if it works.
    """

    @property
    def Resource(self) -> Any: ...
    @property
    def path(self) -> str: ...
    @property
    def export_types(self) -> Mapping[str, bool]: ...
    @property
    def relative_url(self) -> str: ...
    @property
    def fault(self) -> str: ...

class ResourceRegistry(Mapping[str, Entry]):
    """A mapping address -> entry. Addresses have no slashes at their ends."""
    def set(
        self,
        name: str,
        resource: type[Resource],
        export_types: Mapping[str, bool] | None = None,
        *,
        exportTypes: Mapping[str, bool] | None = None,
    ) -> Entry:
        """Register the class `resource` at the address `name`. `export_types`, `exportTypes`: protocol (`rest`, `ws`, `sse`, `mqtt`, or a name of your own)
        -> whether it is visible there.

        Another class that is there already: both are shut off, each request there is answered 500, until one of them goes. Raises TypeError, ValueError;
        RuntimeError on another thread, and from a version that has been replaced.
        """
    def remove(self, name: str) -> None:
        """Nothing answers at the address `name` any more."""
    def get_match(self, path: str, export_type: str | None = None, *, exportType: str | None = None) -> Entry | None:
        """What answers to `path`, or to its beginning, over the protocol `export_type` (or `exportType`); None: nothing does."""
    def __getitem__(self, name: str) -> Entry: ...
    def __iter__(self) -> Iterator[str]: ...
    def __len__(self) -> int: ...

# --- the running call -------------------------------------------------------------------------------------------------------------------

class User:
    """A user account as requests see it. `role` None: no role, or one that no longer exists; such a user is known and may do nothing.

    `key`: of one who is let in by an API key: a user with its rights, or the key itself, if it has a role of its own.
    """

    @property
    def username(self) -> str: ...
    @property
    def active(self) -> bool: ...
    @property
    def role(self) -> Any: ...
    @property
    def super_user(self) -> bool: ...
    def get_id(self) -> str: ...

class Transaction:
    """What is read and written together: the `txn` of `transaction(...)`, and around each handler that a request calls.

    Its reads see what it has written, and else one state, that of its first read.
    """
    @property
    def timestamp(self) -> float:
        """When the transaction began, ms since the epoch."""
    @property
    def is_aborted(self) -> bool: ...
    async def commit(self) -> None:
        """Commit what was written so far; returns when it is on disk. The transaction can be used for further writes, which are another one.

        Raises the problem that prevents it, with nothing written.
        """
    def abort(self) -> None:
        """Undo what was written. Further writes are an error."""
    def reset_read_snapshot(self) -> None:
        """From now on read the newest state."""

class TransactionCall(Generic[_T_co]):
    """What `transaction(...)` returns: `await transaction(fn)` runs `fn(txn)` in a transaction; `async with transaction() as txn` runs the block in one.

    Inside an open transaction both take part in it, and leave its commit to the code that has opened it.
    """
    def __await__(self) -> Generator[Any, Any, _T_co]: ...
    async def __aenter__(self) -> Transaction: ...
    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None) -> None: ...

class TransactionFunction:
    """`await transaction(function)` runs `function(txn)` in a transaction, commits, and returns its result; `transaction(context, function)` in the name of the
    user of that context. `async with transaction() as txn` does the same with a block. What is raised undoes it. Inside of an open transaction both take
    part in that one.
    """

    @overload
    def __call__(self, function: Callable[[Transaction], Awaitable[_T]], /) -> TransactionCall[_T]: ...
    @overload
    def __call__(self, function: Callable[[Transaction], _T], /) -> TransactionCall[_T]: ...
    @overload
    def __call__(self, context: Any, function: Callable[[Transaction], Awaitable[_T]], /) -> TransactionCall[_T]: ...
    @overload
    def __call__(self, context: Any, function: Callable[[Transaction], _T], /) -> TransactionCall[_T]: ...
    @overload
    def __call__(self) -> TransactionCall[Any]: ...
    def commit(self, context: Any = None) -> Awaitable[None]:
        """Commit what the transaction of `context`, by default the running one, has written so far."""
    def abort(self, context: Any = None) -> None:
        """Undo what the transaction of `context`, by default the running one, has written."""

class StatementCall(Coroutine[Any, Any, Any]):
    """What `sql(...)` returns: awaited, all rows as a list of dicts, or what the statement has changed; or iterated, `async for row in sql(...)`."""
    def __await__(self) -> Generator[Any, Any, Any]: ...
    def send(self, value: Any, /) -> Any: ...
    def throw(self, *error: Any) -> Any: ...
    def close(self) -> None: ...
    def __aiter__(self) -> AsyncIterator[dict[str, Any]]: ...

class Mail:
    """Mails from the templates of the application, in its directory `mails`: `welcome.txt`, whose first line is `Subject: ...`, and if there is one
    `welcome.html`.
    """
    async def send(self, to: str, template: str, /, **values: object) -> str:
        """Send a mail to the address `to`, made from the template of the name `template` with these values. Returns its Message-ID.

        Within a transaction it is part of that: the mail is sent when it is committed, and not at all if it is undone. Elsewhere it is in the outbox, on
        disk, when this returns. It is sent afterwards, and again until the server takes it, for a day at most.
        """

class SqlFunction:
    """`await sql(text, parameters)` runs a statement: the rows of a query as a list of dicts with Python values, or what another statement has done, such as
    `{"message": "updated 4 of 4 records", ...}`. `parameters`: a list for `?`, a mapping for `:name`. `async for row in sql(...)` reads any number of rows, one
    after the other. Within a transaction the statement sees what that has written, and what it writes itself is part of it. Rights are checked only if the
    context says so: `context.authorize`.
    """
    def __call__(self, text: str, parameters: Sequence[Any] | Mapping[str, Any] | None = None, context: Any = None) -> StatementCall:
        """`context`: in whose name, by default that of the running call."""

def get_context() -> Any:
    """The context of the running call: its request, or a `Context` for code that runs without one; None outside of any call."""

def get_user() -> User | None:
    """The user that the running call is made for; None: anonymous, or outside of any call."""

def get_response() -> Any:
    """The response of the running call: its `status` and `headers` apply to plain data that the handler returns. None outside of any call."""

async def run_in_thread(function: Callable[_P, _T], /, *arguments: _P.args, **options: _P.kwargs) -> _T:
    """What `function(*arguments, **options)` returns or raises. It runs on another thread, in the context of the caller: `get_user()` and the like work, tables
    do not.

    If the caller is cancelled, a function that has not begun does not run; one that runs goes on, and its result is dropped. Raises Overloaded if
    too many wait.
    """

# --- answers and errors -----------------------------------------------------------------------------------------------------------------

class Headers:
    """Mutable header fields of a request (a copy of its block) or a response; names are case-insensitive, order is kept."""

    @overload
    def get(self, name: str) -> str | None:
        """The value of the field `name`, or `default`; of several with a comma between them."""
    @overload
    def get(self, name: str, default: str) -> str: ...
    def __contains__(self, name: str, /) -> bool: ...
    def __setitem__(self, name: str, value: object, /) -> None: ...
    def __delitem__(self, name: str, /) -> None: ...
    def __init__(self, pairs: Iterable[tuple[str, str]] | dict[str, str] | None = None) -> None: ...
    def set(self, name: str, value: object) -> None:
        """Replace the field `name` by one with `value`; `Set-Cookie` accumulates."""
    def append(self, name: str, value: object) -> None:
        """Add a field. Raises ValueError for what cannot be sent: a `name` that is no token, a `value` with control characters or beyond latin-1 (RFC 9110
        §5.5).
        """
    def has(self, name: str) -> bool:
        """Whether there is a field `name`."""
    def delete(self, name: str) -> None:
        """Remove all fields `name`."""
    def __getitem__(self, name: str) -> str: ...
    def __iter__(self) -> Iterator[tuple[str, str]]: ...
    def __len__(self) -> int: ...

class Response:
    """A response. `data` is encoded in the content type that the client prefers, `body` is sent as it is.

    The header fields hold only what the handler decided: `Date`, `Content-Length` and the transfer coding are the server's.
    """

    body: Any
    status: int
    data: Any
    def __init__(
        self,
        body: bytes | str | Iterator[bytes] | AsyncIterator[bytes] | None = None,
        status: int = 200,
        headers: Headers | dict[str, str] | None = None,
        data: Any = None,
    ) -> None: ...
    @property
    def headers(self) -> Headers: ...

class Abort(Exception):
    """Raised by a handler: answer with `response` now and undo what the request wrote."""

    response: Response
    def __init__(self, response: Response) -> None: ...

class Problem(Exception):
    """An answer with an error status. `message` is for the caller; `code` is stable; `headers` are added to the response."""

    status_code: int
    code: str
    message: str
    headers: tuple[tuple[str, str], ...]
    errors: tuple[str, ...]
    retryable: bool
    def __init__(
        self,
        message: str = "",
        status_code: int | None = None,
        code: str | None = None,
        *,
        headers: tuple[tuple[str, str], ...] = (),
        errors: tuple[str, ...] = (),
        retryable: bool | None = None,
    ) -> None: ...

class ClientError(Problem):
    """The caller did something wrong (4xx)."""

class ServerError(Problem):
    """We cannot do it now (5xx), and may say why."""

class AccessViolation(Problem):
    """401 without a user, 403 with one.

    `right`, `resource`, `attribute`: what the user lacks, in names that the request has or the user may see. Callers who are not known are told nothing.
    """

    def __init__(self, user: object = None, message: str = "") -> None: ...

class ValidationError(ClientError):
    """One or more values the table does not accept. `errors`: one sentence per failure; the message joins them with `. `."""
    def __init__(self, errors: tuple[str, ...] | list[str] | str) -> None: ...

# --- the server -------------------------------------------------------------------------------------------------------------------------

class Server:
    """`server`, as the code of one application sees it."""

    config: Any
    hostname: str
    instance: int
    instances: int
    worker_index: int
    is_main_thread: bool
    content_types: ContentTypes
    contentTypes: ContentTypes
    @property
    def resources(self) -> ResourceRegistry: ...
    @property
    def mqtt(self) -> MqttServer:
        """The broker of MQTT: who is connected, what happens to clients, who may connect. Raises RuntimeError where there is none."""
    def http(self, listener: Callable[..., Any], options: Mapping[str, Any] | None = None, /, **named: Any) -> list[Any]:
        """Add `listener(request, next)` to the chain of requests. Returns the servers that ask it, one for each port.

        `options`, `named`: a mapping or keyword arguments. `run_first`, `before`, `after`: its place, at or beside the listener of this name; `name`: its
        own name. `host`, `url_path`: only requests for these. `port`, `secure_port`: only requests of these ports, which are opened. Raises TypeError,
        ValueError.
        """
    request = http
    def ws(self, listener: Callable[..., Any], options: Mapping[str, Any] | None = None, /, **named: Any) -> list[Any]:
        """Add `listener(ws, request, chain_completion, next)` to the chain of WebSockets. `options`, `named`: as of `http`, and `max_payload`, bytes of a
        message. Returns as `http`.
        """
    def upgrade(self, listener: Callable[..., Any], options: Mapping[str, Any] | None = None, /, **named: Any) -> None:
        """Add `listener(request, socket, head, next)` to the chain of requests that ask for another protocol. `options`, `named`: as of `http`."""
    def mount(self, path: str, app: Callable[..., Awaitable[None]], options: Mapping[str, Any] | None = None, /, **named: Any) -> list[Any]:
        """Serve the ASGI 3 application `app` at `path` and below, HTTP and WebSockets. `options`, `named`: as of `http`, without `url_path`.
        Returns as `http`.
        """
    def socket(self, listener: Callable[..., Any], options: Mapping[str, Any] | None = None, /, **named: Any) -> Any:
        """Open a TCP or TLS server whose connections `listener(reader, writer)` serves, with asyncio streams. `options`, `named`: `port` or `secure_port`.
        Returns it; None without a certificate.
        """
    async def get_user(self, username: str) -> User | None:
        """The user `username`, whose password is not asked for; None if there is none."""
    async def authenticate_user(self, username: str, password: str) -> User:
        """The user `username`, if `password` is theirs. Raises ClientError 401; 503 when too many passwords are being checked."""
    async def auth(self, username: str, password: str | None = None) -> User | None:
        """The global `auth`: `get_user(username)` without a `password`, `authenticate_user` with one."""
    async def operation(self, operation: Mapping[str, Any], context: Any = None, authorize: bool = False) -> Any:
        """The answer of `operation`, a mapping as the operations API takes it. `context`: `{"username": ...}`, or something with a `user`: in whose name.
        Rights are checked only with `authorize`. Within a transaction, records, users and roles that it writes are part of that, and committed with it;
        other operations take effect at once. Raises Problem.
        """
    def record_analytics(
        self, value: Any, metric: str, path: str | None = None, method: str | None = None, type: str | None = None
    ) -> None:
        """Record `value`, a number, a yes or no, or a function that gives the fields of an entry, as an entry of `metric`. `path`,
        `method`, `type`: what it is about; `path` should hold no ids of records.
        """
    @property
    def nodes(self) -> list[Any]:
        """The other nodes that are registered."""
    @property
    def shards(self) -> dict[int, list[Any]]:
        """The registered nodes by the number of their shard, and this one if it has a shard."""

class MqttServer:
    """The broker: `events` tells of clients, `sessions` are those that are connected now, `authorize_client` decides who may connect."""

    events: MqttEvents
    sessions: AbstractSet[MqttSession]
    authorize_client: Callable[..., Any] | None

class MqttEvents:
    """What happens to clients. Listeners are plain or async; what they raise is logged, and does nothing else. They go with their application."""
    def on(self, name: str, callback: Callable[..., Any]) -> MqttEvents:
        """Call `callback` from now on. `name` is one of: "connection" (with its socket), "connected" (session, socket), "auth-failed" (packet, socket, error,
        which is None if there were no credentials), "disconnected" (session, socket), "error" (error, socket, packet, session: the client, or the server, has
        done something wrong, so the connection ends). Arguments that it does not take are left out. Raises ValueError for another name.
        """
    def off(self, name: str, callback: Callable[..., Any]) -> MqttEvents:
        """Do not call `callback` for `name` any more. Of one that was added several times the last is removed."""

class MqttSession:
    """A client that is connected. `request`: the handshake of its WebSocket, None without one. It is there for as long as the connection is, and another one
    for the next connection of the same client.
    """

    client_id: str
    request: Any
    socket: MqttSocket
    @property
    def session_id(self) -> str:
        """The same as `client_id`."""
    @property
    def user(self) -> User | None:
        """With the rights of now; None: anonymous. When the account is gone, or the connection has ended, as it was last."""
    @property
    def subscriptions(self) -> tuple[MqttSubscription, ...]:
        """What the client has subscribed to, as (`topic`, `qos`); when the connection has ended, as it was last."""

class MqttSubscription:
    """What a client has subscribed to: a filter, and the QoS that was granted."""

    topic: str
    qos: int

class MqttSocket:
    """The connection of a client, before and after it is let in."""

    ip: str
    secure: bool
    @property
    def subject(self) -> str | None:
        """That of the certificate that the client has shown, `O=Example, CN=ann`; None without one."""
    def close(self) -> None:
        """End the connection. Version 5 is told 0x98; the will of the client is published."""

class Logger:
    """Writes entries with its tags. A level that is off costs one comparison; arguments are put together only when it is on."""

    tags: tuple[str, ...]
    def warning(self, *messages: object) -> None: ...
    def with_tag(self, tag: str) -> Logger:
        """The same logger with one more tag, `tag`."""
    def trace(self, *messages: object) -> None: ...
    def debug(self, *messages: object) -> None: ...
    def info(self, *messages: object) -> None: ...
    def warn(self, *messages: object) -> None: ...
    def error(self, *messages: object) -> None: ...
    def fatal(self, *messages: object) -> None:
        """As `error`, one level up, and on the disk when this returns. Does not end the process."""
    def notify(self, *messages: object) -> None:
        """Written whatever the level is, and on the disk when this returns."""
    def log(self, level: str, *messages: object) -> None:
        """Write `messages` at `level`: "trace", "debug", "info", "warn", "error", "fatal" or "notify"."""
    def is_enabled(self, level: str) -> bool:
        """Whether entries of this `level`, as "debug", are written now."""

class ContentTypes(MutableMapping[str, Any]):
    """A mapping MIME type -> handler, in the order that decides ties."""
    def __getitem__(self, name: str) -> Any: ...
    def __setitem__(self, name: str, handler: Any) -> None:
        """Raises ValueError for a name that is not a media type and for a handler that cannot be used."""
    def __delitem__(self, name: str) -> None: ...
    def __iter__(self) -> Iterator[str]: ...
    def __len__(self) -> int: ...
