"""The stream with what this node has written to a database, over a connection to its engine (spec: replication §5)."""

from __future__ import annotations

from collections.abc import Callable

from svc.cluster.client import Connection, Unavailable
from svc.cluster.names import stream_name, subject
from svc.cluster.outbox import NotPublished, StreamEnd
from svc.cluster.streams import NotStored, Publication, StreamFailed, ensure_stream, last_message, publish
from svc.cluster.wire import Message, WireError, read_head


class EngineStream:
    """An `outbox.OwnStream`. `max_age`: seconds; `max_bytes`: above either the engine drops the oldest messages. `on_refused`: called with the reason when
    the engine is there, and does not take a message: after its disk was full it takes none until it is started again. It does not always say so: requests
    about a stream that it could not write get no answer, those about others do."""

    def __init__(
        self,
        connection: Connection,
        database: str,
        node: str,
        *,
        max_age: float,
        max_bytes: int,
        replicas: int = 1,
        on_refused: Callable[[str], object] = lambda reason: None,
    ) -> None:
        """Raises ValueError for names that no stream can have."""
        self._connection = connection
        self._name, self._subject = stream_name(database, node), subject("log", database, node)
        self._on_refused = on_refused
        self._max_age, self._max_bytes, self._replicas = max_age, max_bytes, replicas

    async def open(self) -> StreamEnd:
        connection, name = self._connection, self._name
        try:
            info = await ensure_stream(
                connection, name, self._subject, max_age=self._max_age, max_bytes=self._max_bytes, replicas=self._replicas
            )
            found = await last_message(connection, name, self._subject)
            if found is None:
                return StreamEnd(0, None, info.last > 0, info.created, info.last)
            return StreamEnd(found[0], read_head(found[1].headers), True, info.created, found[0])
        except (StreamFailed, Unavailable) as error:
            if isinstance(error, Unavailable) and not connection.is_closed:
                self._on_refused(str(error))
            raise NotPublished(str(error)) from None
        except WireError as error:
            raise NotPublished(f"the last message in its stream is none of this version of svc: {error}") from error

    async def publish(self, message: Message, expected: int) -> Publication:
        outcome = await publish(self._connection, self._subject, message.body, message.headers(), expected=expected)
        if isinstance(outcome, NotStored) and not self._connection.is_closed:
            self._on_refused(outcome.reason)
        return outcome
