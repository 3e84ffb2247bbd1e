"""Contexts whose keys of session tickets all instances of a node have, so that a client resumes its session at any of them.

OpenSSL makes these keys with a context, and Python cannot set them: so the contexts are made before the instances are forked. A handshake begins with such a
context, whose keys count whatever certificate it shows then. Without certificates and settings there is nothing else in it.

Only for ports that ask clients for no certificate: a session has what was verified when it began, and instances that began before and after a change of the
settings may differ in whom they trust.
"""

from __future__ import annotations

import ssl

PURPOSES = ("https", "operations", "mqtt")  # of the ports: a session of one is not resumed at another

_prepared: dict[str, ssl.SSLContext] = {}


def prepare_contexts() -> None:
    """In the process that forks instances, before it does."""
    for purpose in PURPOSES:
        _prepared[purpose] = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)


def take_context(purpose: str) -> ssl.SSLContext:
    """Each is taken once; after that, and in a process that was not forked so, it is a new one."""
    return _prepared.pop(purpose, None) or ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
