"""Accepted sockets: reads, writes, limits and deadlines, one module a protocol (architecture §1-§3).

connections  all connections of a server, and the end of a turn; shared: the state that they share
base       SocketConnection: what they have in common
http1      ... of HTTP/1.1, where every plain connection begins
http2      ... of HTTP/2; http2_exchange: one of its requests, http2_tunnel: after an extended CONNECT
tls_handshake  ... of TLS, until both sides agree; tls: the socket it makes
tunnel     ... after an upgrade
exchange   one request and its answer, and the application that answers
intake     bodies on their way in
bodies     streamed bodies on their way out
"""

from svc.connection.connections import Connections
from svc.connection.exchange import Application, Exchange, Timeouts

__all__ = ["Application", "Connections", "Exchange", "Timeouts"]
