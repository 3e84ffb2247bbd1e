"""The lifecycle of the server's side of an HTTP/1 connection (RFC 9112 §9), one request after the other.

           WHOLE                                  DONE
  +---------------------------+   +-----------------------------------------+
  |                           v   |                                         v
IDLE --HEAD--> RECEIVING --BODY_END--> RECEIVED --ANSWER--> ANSWERING --DONE--> IDLE
                  |                       |                     ^
                  +--ANSWER--> EARLY -----|------BODY_END-------+
                                          +--SWITCH--> SWITCHED

before the first request: IDLE --SWITCH--> SWITCHED (prior knowledge of HTTP/2)
any of them --CLOSE--> CLOSED; IDLE, RECEIVING --FAULT--> FAILED; EARLY --FAULT--> CLOSED

IDLE       no request; the buffer holds less than a head, or what `next_events` will find
RECEIVING  the head was reported, its body is coming; nothing of the final answer is sent
EARLY      the same, but an answer has begun, which says `Connection: close`
RECEIVED   the whole request was reported; nothing of the final answer is sent
ANSWERING  the head of the answer is sent, its body is not complete
FAILED     the peer broke the protocol; `fail` may still answer; input is ignored
CLOSED     nothing more is read or written
SWITCHED   another protocol has taken over
ERROR      this object was misused
"""

from __future__ import annotations

from enum import IntEnum


class State(IntEnum):
    IDLE = 0
    RECEIVING = 1
    EARLY = 2
    RECEIVED = 3
    ANSWERING = 4
    FAILED = 5
    CLOSED = 6
    SWITCHED = 7
    ERROR = 8


class Input(IntEnum):
    HEAD = 0  # a request's head whose body is not complete
    WHOLE = 1  # a request's head with its whole body
    BODY_END = 2
    ANSWER = 3  # the final answer's head is written
    DONE = 4  # the answer is complete and the connection goes on
    CLOSE = 5  # ... and is the last one; or there will be none
    FAULT = 6  # the peer broke the protocol
    SWITCH = 7


TRANSITIONS: dict[State, dict[Input, State]] = {
    State.IDLE: {
        Input.HEAD: State.RECEIVING,
        Input.WHOLE: State.RECEIVED,
        Input.FAULT: State.FAILED,
        Input.SWITCH: State.SWITCHED,
        Input.CLOSE: State.CLOSED,
    },
    State.RECEIVING: {
        Input.BODY_END: State.RECEIVED,
        Input.ANSWER: State.EARLY,
        Input.FAULT: State.FAILED,
        Input.CLOSE: State.CLOSED,
    },
    State.EARLY: {Input.BODY_END: State.ANSWERING, Input.FAULT: State.CLOSED, Input.CLOSE: State.CLOSED},
    State.RECEIVED: {
        Input.ANSWER: State.ANSWERING,
        Input.DONE: State.IDLE,
        Input.SWITCH: State.SWITCHED,
        Input.CLOSE: State.CLOSED,
    },
    State.ANSWERING: {Input.DONE: State.IDLE, Input.CLOSE: State.CLOSED},
    State.FAILED: {Input.CLOSE: State.CLOSED},
    State.CLOSED: {Input.CLOSE: State.CLOSED},
    State.SWITCHED: {},
    State.ERROR: {},
}
# The same as rows to index: hashing an IntEnum calls Python code, indexing with it does not.
NEXT = tuple(tuple(TRANSITIONS[state].get(input, State.ERROR) for input in Input) for state in State)
