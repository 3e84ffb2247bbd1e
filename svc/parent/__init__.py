"""The parent process of a server: it starts the instances, keeps what outlives one of them, and starts another when one ends (spec: configuration §6.5).

    svc run --instances 2      the parent: the lock and the process id of the root, all listening sockets
     |- svc run ...            instance 0: a fork of the parent with an event loop, the store, the applications
     `- svc run ...            instance 1

The parent accepts no connection and opens no database. What an instance asks of it, and is told, goes over a socket pair (`channel`, `messages`); the end of an
instance that has it is a `Link`.
"""

from svc.parent.link import Link
from svc.parent.parent import Parent

__all__ = ["Link", "Parent"]
