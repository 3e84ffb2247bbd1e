"""What a preparation rests on: who asks, what that caller may, what is at the address; and whether all this still holds.

None of it is decided here: it is what the general path has found for the request that is prepared, with the versions of the objects that it was found in.
"""

from __future__ import annotations

from collections.abc import Callable
from math import inf

from svc.auth.identify import Identifier, is_loopback
from svc.auth.roles import ALL_RIGHTS, TableRights, rights
from svc.auth.users import user_of
from svc.errors import Problem
from svc.http.dispatch import Dispatcher
from svc.http.preferences import Preferences
from svc.messages import HeaderPairs, Request, Response
from svc.prepared.answers import Carrier, encode_head
from svc.protocol.express import BLOCKS
from svc.protocol.request_head import ParsedBlock
from svc.resources import Resources, TableResource
from svc.rest import Rest
from svc.store import Database, Table

_OUTSIDE = frozenset(
    ("origin", "sec-fetch-site", "cookie", "range", "traceparent")
)  # fields that the answer, or who asks, may depend on each time
_TOLD = frozenset(("rows",))  # of the state of a call, what is told to none but those who watch

Premise = Callable[[Carrier, float], bool]
"""Whether a preparation still holds for a request on this connection that has arrived at this time. To be asked when the turn's snapshot has been taken, for
that may find that another process has changed definitions, users, rights."""


class Premises:
    """Of the requests of one port."""

    def __init__(self, dispatcher: Dispatcher, rest: Rest, resources: Resources, identifier: Identifier) -> None:
        self._dispatcher = dispatcher
        self._rest = rest
        self._resources = resources
        self._identifier = identifier

    def can_be_prepared(self, request: Request) -> bool:
        """Whether all that is told of the request and its answer is what is told of any, and its header block alone says who asks."""
        return (
            self.names_caller(request)
            and (request._state is None or vars(request._state).keys() <= _TOLD)
            and request.added_headers is None
        )

    def names_caller(self, request: Request) -> bool:
        """Whether nobody watches, and the header block alone says who asks."""
        return not self._dispatcher.is_watched and _OUTSIDE.isdisjoint(request.block.fields)

    def preferences(self, request: Request) -> Preferences | None:
        """Those by which the request was answered; None: it was not by REST."""
        preferences: Preferences | None = request.block.memo.get("rest")
        return preferences

    def table_resource(self, request: Request, address: str, *steps: str, text_keys: bool = True) -> type[TableResource] | None:
        """The table whose records have the address of the request, `address` and a key, if nothing else answers at any address below it and none of these
        steps is an application's own. `text_keys`: only if the text of the address is the key."""
        path = address[1:]
        if not path or self._rest.answers_below(address) or any(each.startswith(f"{path}/") for each in self._resources):
            return None
        found = self._resources.find(request.pathname, "rest")
        if found is None or found[0].path != path or found[0].pattern is not None or found[0].fault:
            return None
        resource = found[0].resource
        if not issubclass(resource, TableResource) or (text_keys and not resource.text_keys):
            return None
        own = [name for name in steps if getattr(resource, name).__func__ is not getattr(TableResource, name).__func__]
        return None if own else resource

    def rights(self, request: Request, resource: type[TableResource]) -> TableRights:
        user = user_of(request)
        return rights(user, resource.table) if user is None or not user.super_user or resource.is_system else ALL_RIGHTS

    def premise(self, request: Request, table: Table, may: TableRights) -> Premise | None:
        """None: it cannot be said who asks the next time."""
        rest, resources, types, directory = self._rest, self._resources, self._rest.types, self._identifier.directory
        block, identifier, user = request.block, self._identifier, user_of(request)
        generation, expires, is_local = directory.generation, inf, False
        if request.user is not None:
            is_local = identifier.is_local(block)
            if not is_local:
                known = identifier.remembered(block)
                if known is None or known[2] is not request.user:
                    return None
                generation, expires, _ = known
        elif not identifier.is_anonymous(block):
            return None
        versions = rest.version + resources.version + types.generation + generation  # each only grows
        definition, is_limited = table.definition, may is not ALL_RIGHTS

        def holds(carrier: Carrier, arrived: float) -> bool:
            return (
                rest.version + resources.version + types.generation + directory.generation == versions
                and arrived < expires
                and table.definition is definition
                and table.caching is None
                and (not is_limited or rights(user, table) is may)
                and (not is_local or is_loopback(carrier.peer))
            )

        return holds

    def template(self, request: Request, outcome: Response | Problem) -> Response:
        """The answer to this request if it had ended with this, without `Server-Timing`."""
        answered = request.answered
        response = self._dispatcher.outcome(request, outcome)
        request.answered = answered
        response.pairs.pop()
        return response

    def head(self, request: Request, pairs: HeaderPairs) -> list[bytes]:
        """That of a 200 with these fields, as `encode_head` cuts it."""
        return encode_head(200, self.template(request, Response(b"", pairs=pairs)).pairs)


def while_tables_stay(database: Database, holds: Premise) -> Premise:
    """The premise of what rests on the definitions of other tables of the database, too."""
    version = database.tables_version
    return lambda carrier, arrived: database.tables_version == version and holds(carrier, arrived)


def is_complete(parsed: ParsedBlock) -> bool:
    """Whether a request with this header block has no body, and leaves the connection open."""
    return not (parsed.content_length or parsed.chunked or parsed.expects_continue or parsed.upgrades) and parsed.keep_alive


def parsed_block(raw: bytes, request: Request) -> ParsedBlock | None:
    """The block of these bytes, if it is that of the request."""
    parsed = BLOCKS.young.get(raw)
    return parsed if parsed is not None and parsed.block is request.block else None
