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
    """svc.store.blobs.blob.Blob: type, size, text, slice, written"""

    def __init__(self, content: builtins.bytes | memoryview | None = None, type: str | None = None) -> None: ...
    async def bytes(self) -> builtins.bytes: ...
    def stream(self, start: int = 0, end: int | None = None) -> AsyncIterator[builtins.bytes]: ...
    def on(self, name: Literal["size", "error"], callback: Callable[[Any], object]) -> None: ...

"""svc.store.blobs: create_blob"""

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
    """svc.api.results.Items: __aiter__, __await__, aclose, filter, concat, slice, map_error, for_each, to_list"""

    @overload
    def map(self, function: Callable[[_T_co], Awaitable[_U]]) -> Items[_U]: ...
    @overload
    def map(self, function: Callable[[_T_co], _U]) -> Items[_U]: ...
    @overload
    def flat_map(self, function: Callable[[_T_co], AsyncIterable[_U] | Iterable[_U]]) -> Items[_U]: ...
    @overload
    def flat_map(self, function: Callable[[_T_co], Awaitable[AsyncIterable[_U] | Iterable[_U]]]) -> Items[_U]: ...

class Results(Items[_T_co]):
    """svc.api.results.Results: first, columns"""

class Plan(Results[Any]):
    """How a query would be carried out: awaited, it is that."""

    def __await__(self) -> Generator[Any, Any, Any]: ...

class RelatedRecord(Items[_T_co]):
    """svc.api.related.RelatedRecord"""

    def __await__(self) -> Generator[Any, Any, _T_co | None]: ...  # type: ignore[override] # pyright: ignore[reportIncompatibleMethodOverride]

class Event(Mapping[str, Any]):
    """svc.realtime.changes.LogEvent: id, value, local_time, user, __getitem__, __iter__, __len__"""

    @property
    def type(self) -> str:
        """`put`, `patch`, `delete`, `message`, `invalidate` and others."""
    @property
    def version(self) -> float: ...
    @property
    def timestamp(self) -> float: ...

class Subscription:
    """svc.api.subscriptions.Subscription: __await__, __aiter__, aclose, ended, send, end"""

    async def __anext__(self) -> Event: ...
    @overload
    def on(self, name: Literal["data"], callback: Callable[[Any], Any]) -> Subscription: ...
    @overload
    def on(self, name: Literal["close"], callback: Callable[..., Any]) -> Subscription: ...

class SubscriptionCall(Coroutine[Any, Any, Subscription]):
    def __await__(self) -> Generator[Any, Any, Subscription]: ...
    def send(self, value: Any, /) -> Any: ...
    def throw(self, *error: Any) -> Any: ...
    def close(self) -> None: ...
    def __aiter__(self) -> AsyncIterator[Event]: ...

class HistoryEntry(dict[str, Any]):
    """svc.api.administration.HistoryEntry"""

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
    """svc.api.administration.RecordCount"""

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
    """svc.api.target.RequestTarget: __init__, __iter__, get_all, has, append, delete, set"""

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
    def pathname(self) -> str: ...
    @builtins.property
    def search(self) -> str: ...
    @builtins.property
    def parse_error(self) -> Exception | None: ...
    def __getattr__(self, name: str) -> Any:
        """Keys of the query object and its options, and the values of parameters of the path."""
    @overload
    def get(self, name: str) -> str | None: ...
    @overload
    def get(self, name: str, default: _T) -> str | _T: ...

# --- records ----------------------------------------------------------------------------------------------------------------------------

class Record(Mapping[str, Any], Generic[_Key]):
    """svc.api.records.Record: __getitem__, __iter__, __len__, get_updated_time, get_expires_at"""

    def get_id(self) -> _Key: ...

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
    """svc.api.instances.Instance: __init__, get_id, is_collection, get_context, get_current_user, does_exist, was_loaded_from_source"""

class Resource(Instance):
    """svc.api.resource.Resource: allow_read, allow_update, allow_create, allow_delete, parse_query"""

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

class Table(Resource, Generic[_Key]):
    """svc.api.table.Table: __contains__, __iter__, keys, get_property, get_updated_time, get_expires_at, set, delete_property, save,
    ensure_loaded, allow_stale_while_revalidate, source_from, get_record_count, get_size, get_audit_size, get_storage_stats,
    set_ttl_expiration, set_computed_attribute, operation, add_attributes, remove_attributes, drop_table, enable_auditing, get_history,
    get_history_of_record, delete_history"""

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

    def __await__(self) -> Generator[Any, Any, Self]: ...
    def __getitem__(self, name: str, /) -> Any: ...
    def __delitem__(self, name: str, /) -> None: ...
    def get_id(self) -> _Key | None: ...
    def validate(self, record: Any, partial: bool = False) -> Any: ...
    @classmethod
    def as_user(cls, user: User | str | None) -> Any: ...
    @classmethod
    def get_new_id(cls) -> _Key: ...
    @classmethod
    def coerce_id(cls, text: Any) -> _Key: ...

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
    """svc.api.as_user.TableAsUser"""

    @property
    def user(self) -> User | None: ...
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
    """svc.api.interface.Tables"""

    def __iter__(cls) -> Iterator[str]: ...
    def __len__(cls) -> int: ...
    def __getitem__(cls, name: str, /) -> type[Any]: ...

class Databases(type, Mapping[str, Any]):
    """svc.api.interface.Databases"""

    def __iter__(cls) -> Iterator[str]: ...
    def __len__(cls) -> int: ...
    def __getitem__(cls, name: str, /) -> Mapping[str, type[Any]]: ...

class Entry:
    """svc.api.registry.Entry"""

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
    """svc.api.registry.ResourceRegistry: set, remove, get_match, __getitem__, __iter__, __len__"""

# --- the running call -------------------------------------------------------------------------------------------------------------------

class User:
    """svc.auth.users.User: get_id"""

    @property
    def username(self) -> str: ...
    @property
    def active(self) -> bool: ...
    @property
    def role(self) -> Any: ...
    @property
    def super_user(self) -> bool: ...

class Transaction:
    """svc.api.transactions.Transaction: timestamp, is_aborted, commit, abort, reset_read_snapshot"""

class TransactionCall(Generic[_T_co]):
    """svc.api.transactions.TransactionCall: __aenter__, __aexit__"""
    def __await__(self) -> Generator[Any, Any, _T_co]: ...

class TransactionFunction:
    """svc.api.transactions.TransactionFunction: commit, abort"""

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

class StatementCall(Coroutine[Any, Any, Any]):
    """svc.api.statements.StatementCall"""
    def __await__(self) -> Generator[Any, Any, Any]: ...
    def send(self, value: Any, /) -> Any: ...
    def throw(self, *error: Any) -> Any: ...
    def close(self) -> None: ...
    def __aiter__(self) -> AsyncIterator[dict[str, Any]]: ...

class Mail:
    """svc.api.mail.Mail: send"""

class SqlFunction:
    """svc.api.statements.SqlFunction: __call__"""

"""svc.api.context: get_context, get_user, get_response"""
"""svc.api.threads: run_in_thread"""

# --- answers and errors -----------------------------------------------------------------------------------------------------------------

class Headers:
    """svc.messages.headers.Headers: __init__, set, append, has, delete, __getitem__, __iter__, __len__"""

    @overload
    def get(self, name: str) -> str | None: ...
    @overload
    def get(self, name: str, default: str) -> str: ...
    def __contains__(self, name: str, /) -> bool: ...
    def __setitem__(self, name: str, value: object, /) -> None: ...
    def __delitem__(self, name: str, /) -> None: ...

class Response:
    """svc.messages.response.Response: headers"""

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

class Abort(Exception):
    """svc.messages.response.Abort: __init__"""

    response: Response

class Problem(Exception):
    """svc.errors.Problem: __init__"""

    status_code: int
    code: str
    message: str
    headers: tuple[tuple[str, str], ...]
    errors: tuple[str, ...]
    retryable: bool

class ClientError(Problem):
    """svc.errors.ClientError"""

class ServerError(Problem):
    """svc.errors.ServerError"""

class AccessViolation(Problem):
    """svc.errors.AccessViolation"""

    def __init__(self, user: object = None, message: str = "") -> None: ...

class ValidationError(ClientError):
    """svc.errors.ValidationError: __init__"""

# --- the server -------------------------------------------------------------------------------------------------------------------------

class Server:
    """svc.api.server.Server: ws, upgrade, mount, socket, get_user, authenticate_user, auth, operation, record_analytics, nodes,
    shards"""

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
    def mqtt(self) -> MqttServer: ...
    def http(self, listener: Callable[..., Any], options: Mapping[str, Any] | None = None, /, **named: Any) -> list[Any]: ...
    request = http

class MqttServer:
    """svc.api.mqtt.MqttServer"""

    events: MqttEvents
    sessions: AbstractSet[MqttSession]
    authorize_client: Callable[..., Any] | None

class MqttEvents:
    """svc.api.mqtt.MqttEvents: on, off"""

class MqttSession:
    """svc.mqtt.clients.MqttSession: session_id, user, subscriptions"""

    client_id: str
    request: Any
    socket: MqttSocket

class MqttSubscription:
    """svc.mqtt.clients.MqttSubscription"""

    topic: str
    qos: int

class MqttSocket:
    """svc.mqtt.clients.MqttSocket: subject, close"""

    ip: str
    secure: bool

class Logger:
    """svc.logs.core.Logger: trace, debug, info, warn, error, fatal, notify, log, is_enabled"""

    tags: tuple[str, ...]
    def warning(self, *messages: object) -> None: ...
    def with_tag(self, tag: str) -> Logger: ...

class ContentTypes(MutableMapping[str, Any]):
    """svc.content.registry.ContentTypes: __getitem__, __setitem__, __delitem__, __iter__, __len__"""
