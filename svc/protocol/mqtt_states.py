"""The states of a connection, and of the exchange of one message at QoS 1 and 2, as tables (MQTT 5 §4.3, §4.4).

An exchange has a packet identifier; those that the client has chosen (received messages) and those that we have (sent ones) have nothing to do with each
other. What has to survive a crash is committed before it is said: a message together with "received" before PUBREC, the removal of "received" before
PUBCOMP, "sent" before PUBLISH at QoS 2, "released" before PUBREL.

Received at QoS 2
               PUBLISH             COMMITTED            PUBREL              COMMITTED
    FREE ---------------> WRITTEN -----------> RECEIVED ---------> RELEASED ---------> FREE
             write                   PUBREC              remove               PUBCOMP

PUBCOMP waits for the removal: else the client uses the identifier for another message, a crash brings "received" back, and that message is taken for
a repetition of this one.

Sent at QoS 2
             COMMITTED          PUBREC              COMMITTED            PUBCOMP
    STORED -----------> SENT -------------> CONFIRMED ---------> RELEASED --------> FREE
             PUBLISH           note it                 PUBREL

Sent at QoS 1
               PUBACK
    UNCONFIRMED ------> FREE

An input that is not in a table breaks the protocol.
"""

from __future__ import annotations

from enum import IntEnum


class ConnectionState(IntEnum):
    """EXPECTING: CONNECT, and nothing else. DECIDING: it has come; what follows it is not read before it is answered. OPEN. CLOSED: nothing is read."""

    EXPECTING = 0
    DECIDING = 1
    OPEN = 2
    CLOSED = 3


class ConnectionInput(IntEnum):
    CONNECT = 0
    OTHER = 1  # any other packet of a client
    ACCEPT = 2
    END = 3  # refused, DISCONNECT of either side, a fault, or the socket is gone


CONNECTION: dict[ConnectionState, dict[ConnectionInput, ConnectionState]] = {
    ConnectionState.EXPECTING: {ConnectionInput.CONNECT: ConnectionState.DECIDING, ConnectionInput.END: ConnectionState.CLOSED},
    ConnectionState.DECIDING: {ConnectionInput.ACCEPT: ConnectionState.OPEN, ConnectionInput.END: ConnectionState.CLOSED},
    ConnectionState.OPEN: {ConnectionInput.OTHER: ConnectionState.OPEN, ConnectionInput.END: ConnectionState.CLOSED},
    ConnectionState.CLOSED: {ConnectionInput.END: ConnectionState.CLOSED},
}


class Received(IntEnum):
    """Of a message at QoS 2 that the client sends."""

    FREE = 0
    WRITTEN = 1  # the message and "received" are written, but not committed
    WRITTEN_BEFORE = 2  # the same, over a connection that is gone: the client repeats PUBLISH, and has one answer to that
    RECEIVED = 3
    RELEASED = 4  # "received" is removed, but not committed
    RELEASED_BEFORE = 5


class Sent(IntEnum):
    """Of a message at QoS 1 or 2 that we send."""

    FREE = 0
    UNCONFIRMED = 1  # QoS 1
    STORED = 2  # "sent" is written, but not committed
    SENT = 3
    CONFIRMED = 4  # "released" is written, but not committed
    RELEASED = 5


class Input(IntEnum):
    PUBLISH = 0
    PUBACK = 1
    PUBREC = 2
    PUBREC_REFUSED = 3  # with a code from 0x80 on
    PUBREL = 4
    PUBCOMP = 5
    COMMITTED = 6
    FAILED = 7  # nothing of what was written is committed
    RESUMED = 8  # the session goes on over a new connection


class Action(IntEnum):
    """What is to be done now."""

    NOTHING = 0
    WRITE = 1  # the message, and "received" with it
    REMOVE = 2  # "received"
    NOTE = 3  # "released" in place of "sent"
    FORGET = 4  # "sent": the exchange is over; may be late
    PUBLISH = 5
    PUBLISH_AGAIN = 6  # with DUP
    PUBREC = 7
    REFUSE = 8  # PUBREC with the code of what went wrong; 3.1.1 has none, and only closes
    PUBREL = 9
    PUBCOMP = 10
    NOT_FOUND = 11  # PUBCOMP, or PUBREL, that says so
    CLOSE = 12


RECEIVED: dict[tuple[Received, Input], tuple[Action, Received]] = {
    (Received.FREE, Input.PUBLISH): (Action.WRITE, Received.WRITTEN),
    (Received.FREE, Input.PUBREL): (Action.NOT_FOUND, Received.FREE),
    (Received.WRITTEN, Input.PUBLISH): (Action.NOTHING, Received.WRITTEN),  # one PUBREC answers all that come before it
    (Received.WRITTEN, Input.COMMITTED): (Action.PUBREC, Received.RECEIVED),
    (Received.WRITTEN, Input.FAILED): (Action.REFUSE, Received.FREE),
    (Received.WRITTEN, Input.RESUMED): (Action.NOTHING, Received.WRITTEN_BEFORE),
    (Received.WRITTEN_BEFORE, Input.PUBLISH): (Action.NOTHING, Received.WRITTEN),
    (Received.WRITTEN_BEFORE, Input.COMMITTED): (Action.NOTHING, Received.RECEIVED),
    (Received.WRITTEN_BEFORE, Input.FAILED): (Action.NOTHING, Received.FREE),
    (Received.WRITTEN_BEFORE, Input.RESUMED): (Action.NOTHING, Received.WRITTEN_BEFORE),
    (Received.RECEIVED, Input.PUBLISH): (Action.PUBREC, Received.RECEIVED),
    (Received.RECEIVED, Input.PUBREL): (Action.REMOVE, Received.RELEASED),
    (Received.RECEIVED, Input.RESUMED): (Action.NOTHING, Received.RECEIVED),
    (Received.RELEASED, Input.PUBREL): (Action.NOTHING, Received.RELEASED),
    (Received.RELEASED, Input.COMMITTED): (Action.PUBCOMP, Received.FREE),
    (Received.RELEASED, Input.FAILED): (Action.CLOSE, Received.RECEIVED),
    (Received.RELEASED, Input.RESUMED): (Action.NOTHING, Received.RELEASED_BEFORE),
    (Received.RELEASED_BEFORE, Input.PUBREL): (Action.NOTHING, Received.RELEASED),
    (Received.RELEASED_BEFORE, Input.COMMITTED): (Action.NOTHING, Received.FREE),
    (Received.RELEASED_BEFORE, Input.FAILED): (Action.NOTHING, Received.RECEIVED),
    (Received.RELEASED_BEFORE, Input.RESUMED): (Action.NOTHING, Received.RELEASED_BEFORE),
}

SENT: dict[tuple[Sent, Input], tuple[Action, Sent]] = {
    (Sent.FREE, Input.PUBACK): (Action.NOTHING, Sent.FREE),
    (Sent.FREE, Input.PUBREC): (Action.NOT_FOUND, Sent.FREE),
    (Sent.FREE, Input.PUBREC_REFUSED): (Action.NOTHING, Sent.FREE),
    (Sent.FREE, Input.PUBCOMP): (Action.NOTHING, Sent.FREE),
    (Sent.UNCONFIRMED, Input.PUBACK): (Action.FORGET, Sent.FREE),
    (Sent.UNCONFIRMED, Input.RESUMED): (Action.PUBLISH_AGAIN, Sent.UNCONFIRMED),
    (Sent.STORED, Input.COMMITTED): (Action.PUBLISH, Sent.SENT),
    (Sent.STORED, Input.FAILED): (Action.CLOSE, Sent.FREE),
    (Sent.STORED, Input.RESUMED): (Action.NOTHING, Sent.STORED),  # the commit is still to come
    (Sent.SENT, Input.PUBREC): (Action.NOTE, Sent.CONFIRMED),
    (Sent.SENT, Input.PUBREC_REFUSED): (Action.FORGET, Sent.FREE),
    (Sent.SENT, Input.RESUMED): (Action.PUBLISH_AGAIN, Sent.SENT),
    (Sent.CONFIRMED, Input.PUBREC): (Action.NOTHING, Sent.CONFIRMED),
    (Sent.CONFIRMED, Input.COMMITTED): (Action.PUBREL, Sent.RELEASED),
    (Sent.CONFIRMED, Input.FAILED): (Action.CLOSE, Sent.SENT),
    (Sent.CONFIRMED, Input.RESUMED): (Action.NOTHING, Sent.CONFIRMED),
    (Sent.RELEASED, Input.PUBREC): (Action.PUBREL, Sent.RELEASED),
    (Sent.RELEASED, Input.PUBCOMP): (Action.FORGET, Sent.FREE),
    (Sent.RELEASED, Input.RESUMED): (Action.PUBREL, Sent.RELEASED),
}
