"""Request, Response and Headers: the interface of handlers, the same for every protocol (architecture §11)."""

from svc.messages.call_state import AppliedWrites, CallState, WritePrecondition
from svc.messages.headers import HeaderBlock, HeaderPairs, Headers
from svc.messages.request import UNIX_PEER, Caller, Request, RequestSessions, Transport
from svc.messages.response import Abort, BodyStream, Feed, FeedWriter, Response
from svc.messages.tunnel import Receiver, Tunnel, Upgrade

__all__ = [
    "UNIX_PEER",
    "Abort",
    "AppliedWrites",
    "BodyStream",
    "CallState",
    "Caller",
    "Feed",
    "FeedWriter",
    "HeaderBlock",
    "HeaderPairs",
    "Headers",
    "Receiver",
    "Request",
    "RequestSessions",
    "Response",
    "Transport",
    "Tunnel",
    "Upgrade",
    "WritePrecondition",
]
