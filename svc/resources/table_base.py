"""What all verbs of a table need: its class attributes, keys from paths, permissions (architecture §11; spec: http §2, §11.1)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from svc.auth.roles import ALL_RIGHTS, TableRights, rights
from svc.auth.users import HasUser, User, user_of
from svc.content.list_faults import named_refusal
from svc.errors import AccessViolation, BadBody, ClientError, PreconditionNotPossible, Problem
from svc.messages import Request
from svc.query import QueryCache
from svc.query.narrowing import guard_of, is_view, view_of
from svc.query.plain_parameters import CACHE_BUSTER
from svc.query.tables import AnyTable
from svc.resources.resource import WRITE_CONDITIONS, Resource
from svc.resources.target import RequestTarget, whole_text
from svc.store import Store, Table
from svc.store.values.validation import key_from_text
from svc.store.writing.transaction import LONG_WRITES

if TYPE_CHECKING:
    from svc.query.row_guard import RowGuard

UNCHECKED_KEY_LENGTH = 400  # characters of a key that is within every limit, whatever its characters are
READING = frozenset(("get", "query", "subscribe", "connect"))
WRITTEN = frozenset(("put", "patch", "post", "publish"))  # verbs whose data are the properties of records


class TableBase(Resource):
    """Class attributes are set per table, by `table_resource`."""

    table: ClassVar[Table]
    store: ClassVar[Store]
    allow_full_scan: ClassVar[bool] = False
    queries: ClassVar[QueryCache]
    text_keys: ClassVar[bool] = False  # the text of an id is its key
    untyped_keys: ClassVar[bool] = False
    shows_record_count: ClassVar[bool] = False  # in its description
    staleness: ClassVar[Any] = (
        None  # a class that says which records of a source may be served while they are loaded; None: that which has named it
    )
    is_system: ClassVar[bool] = False  # of the system database, where a super user's rights end

    @classmethod
    def is_same(cls, other: type[Resource]) -> bool:
        if not issubclass(other, TableBase) or hasattr(other, "application"):  # with code of an application it is another one
            return False
        table, another = cls.table, other.table
        return (table.name, table.database.name) == (another.name, another.database.name)

    @classmethod
    def bind(cls, target: RequestTarget, request: Request | None = None) -> None:
        if target.extension is not None and cls._is_whole_key(target, request):
            return
        text = target.id_text
        if text is not None:
            short = cls.text_keys and len(text) <= UNCHECKED_KEY_LENGTH
            target.id = text if short else key_from_text(cls.table.definition, text, target.raw or "")

    @classmethod
    def _is_whole_key(cls, target: RequestTarget, request: Request | None) -> bool:
        """Whether a record has a key like `report.csv`: then the extension is part of the key, and the target is that record (spec: http §1.2). One that
        is not there for the caller of `request` must not take the address of another one (spec: rows §1.3)."""
        text = whole_text(target)
        if text is None:
            return False
        try:
            key = key_from_text(cls.table.definition, text)
            raw = cls.table.get_raw(key)
            if raw is None or (request is not None and not cls.may_see(raw, request)):
                return False
        except ClientError:  # no key of this table
            return False
        target.id_text, target.id = text, key
        target.extension = target.property = target.prefix = None
        target.is_collection = False
        return True

    @classmethod
    def methods_missing(cls, target: RequestTarget) -> tuple[str, ...]:
        missing = super().methods_missing(target)
        return missing if target.id_text is None else (*missing, "POST")

    @classmethod
    def refuse_query(cls, target: RequestTarget, method: str) -> None:
        """A condition is not a precondition: ignoring it would write without the protection that the client expects."""
        if method != "POST":  # which is not allowed on a record anyway
            message = f"{method} of one record takes no query in its address; a precondition is sent as If-Match"
            raise ClientError(message, code="QUERY_SYNTAX")

    @classmethod
    def refuse_body(cls, target: RequestTarget, request: Request) -> None:
        """Other systems take keys or a query in it: without it the request would say something else, in the worst case to delete everything."""
        cls.authorize("delete", target, None, request)
        raise BadBody("DELETE takes no body: the key of the record, or the query, goes into the address")

    @classmethod
    def refuse_conditions(cls, request: Request) -> None:
        """A collection has no version, and a list is stored record by record: a condition that nothing tests must not seem to hold."""
        fields = request.block.fields
        for name in WRITE_CONDITIONS:
            if name in fields:
                raise PreconditionNotPossible(
                    f"{name.title()} is a condition on one record, and {request.method} of a collection cannot keep it: send it to the address of a record"
                )
        query = request.query
        if query and request.method == "PUT" and CACHE_BUSTER.fullmatch(query) is None:
            raise ClientError(
                "PUT of a collection takes no query in its address: each record is stored under its own key, whatever is there",
                code="QUERY_SYNTAX",
            )

    # --- permission ----------------------------------------------------------------------------------------------------------------

    @classmethod
    def admit(cls, request: Request) -> None:
        user = request.user
        if (user is None or not user.super_user or cls.is_system) and not rights(user_of(request), cls.table).any:
            raise AccessViolation(user)

    @classmethod
    def authorize(cls, verb: str, target: RequestTarget, data: Any, request: Request) -> None:
        """http §11.1: read, insert, update or delete; attribute rights on what is written. Sets `target.rights`."""
        user = request.user
        if user is not None and user.super_user and not cls.is_system:
            target.rights = ALL_RIGHTS
            return
        assert user is None or type(user) is User
        may = target.rights = rights(user, cls.table)
        if may.all:
            return
        if may.rows is not None:
            request.is_narrowed = True
        if not _is_allowed(may, verb, target):
            raise AccessViolation(user, right=_needed(verb, target) if may.any else "", resource=may.table)
        if data is not None and verb in WRITTEN and may.attributes is not None and not (isinstance(data, list) and len(data) > LONG_WRITES):
            insert = verb == "post" or verb == "publish" or None
            if isinstance(data, dict):
                may.check_write(data, insert=insert, user=user)
            elif isinstance(data, list):
                for number in range(len(data)):
                    cls.check_element(data, number, insert, may, request)

    @classmethod
    def check_element(cls, records: list[Any], number: int, insert: bool | None, may: TableRights, request: Request) -> None:
        """`check_write` of one record of a list, which the error names."""
        record = records[number]
        if isinstance(record, dict):
            try:
                may.check_write(record, insert=insert, user=user_of(request))
            except Problem as error:
                raise named_refusal(error, number, records, cls.table.primary_key, request) from None

    @classmethod
    def seen_by(cls, request: Request, also: str | None = None) -> AnyTable:
        """The table as the caller may see it (spec: rows §1.3). `also`: see `view_of`."""
        user = request.user
        if user is not None and user.super_user:
            return cls.table
        view = view_of(user_of(request), cls.table, also)
        if view is not cls.table:
            request.is_narrowed = True
        return view

    @classmethod
    def may_see(cls, raw: bytes, request: Request) -> bool:
        """Whether a record is there for the caller."""
        view = cls.seen_by(request)
        return not is_view(view) or view.holds("read", b"", raw, cls.table.database.snapshot())

    @classmethod
    def guard(cls, target: RequestTarget, request: HasUser) -> RowGuard | None:
        """What rules on rows say of a write by `target.rights`."""
        return None if target.rights is ALL_RIGHTS else guard_of(user_of(request), cls.table)

    @staticmethod
    def visible(target: RequestTarget) -> frozenset[str] | None:
        may: TableRights = target.rights
        return may.readable


def _needed(verb: str, target: RequestTarget) -> str:
    """The right that a verb takes, in words."""
    if verb in READING:
        return "read"
    if verb == "delete":
        return "delete"
    if verb == "publish":
        return "insert"
    if verb == "post":
        return "insert" if target.is_collection or target.is_root else "update"
    return "insert or update"


def _is_allowed(may: TableRights, verb: str, target: RequestTarget) -> bool:
    """Whether the rights on the table allow a verb; whether PUT and PATCH insert or update is decided where the record is written."""
    if verb in READING:
        return may.read
    if verb == "delete":
        return may.delete
    if verb == "publish":
        return may.insert
    if verb == "post":
        return may.insert if target.is_collection or target.is_root else may.update
    return may.insert or may.update
