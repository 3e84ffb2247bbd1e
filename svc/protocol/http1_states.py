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


class Http1State(IntEnum):
    IDLE = 0
    RECEIVING = 1
    EARLY = 2
    RECEIVED = 3
    ANSWERING = 4
    FAILED = 5
    CLOSED = 6
    SWITCHED = 7
    ERROR = 8


class Http1Input(IntEnum):
    HEAD = 0  # a request's head whose body is not complete
    WHOLE = 1  # a request's head with its whole body
    BODY_END = 2
    ANSWER = 3  # the final answer's head is written
    DONE = 4  # the answer is complete and the connection goes on
    CLOSE = 5  # ... and is the last one; or there will be none
    FAULT = 6  # the peer broke the protocol
    SWITCH = 7


TRANSITIONS: dict[Http1State, dict[Http1Input, Http1State]] = {
    Http1State.IDLE: {
        Http1Input.HEAD: Http1State.RECEIVING,
        Http1Input.WHOLE: Http1State.RECEIVED,
        Http1Input.FAULT: Http1State.FAILED,
        Http1Input.SWITCH: Http1State.SWITCHED,
        Http1Input.CLOSE: Http1State.CLOSED,
    },
    Http1State.RECEIVING: {
        Http1Input.BODY_END: Http1State.RECEIVED,
        Http1Input.ANSWER: Http1State.EARLY,
        Http1Input.FAULT: Http1State.FAILED,
        Http1Input.CLOSE: Http1State.CLOSED,
    },
    Http1State.EARLY: {Http1Input.BODY_END: Http1State.ANSWERING, Http1Input.FAULT: Http1State.CLOSED, Http1Input.CLOSE: Http1State.CLOSED},
    Http1State.RECEIVED: {
        Http1Input.ANSWER: Http1State.ANSWERING,
        Http1Input.DONE: Http1State.IDLE,
        Http1Input.SWITCH: Http1State.SWITCHED,
        Http1Input.CLOSE: Http1State.CLOSED,
    },
    Http1State.ANSWERING: {Http1Input.DONE: Http1State.IDLE, Http1Input.CLOSE: Http1State.CLOSED},
    Http1State.FAILED: {Http1Input.CLOSE: Http1State.CLOSED},
    Http1State.CLOSED: {Http1Input.CLOSE: Http1State.CLOSED},
    Http1State.SWITCHED: {},
    Http1State.ERROR: {},
}
# The same as rows to index: hashing an IntEnum calls Python code, indexing with it does not.
NEXT = tuple(tuple(TRANSITIONS[state].get(input, Http1State.ERROR) for input in Http1Input) for state in Http1State)
