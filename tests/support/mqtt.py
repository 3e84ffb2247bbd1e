"""What the tests of MQTT share."""

from __future__ import annotations

from itertools import count

from svc.mqtt.broker import Broker
from svc.testing.application import Application

_identities = count()


def broker_of(app: Application) -> Broker:
    return app._instance.server.interfaces.mqtt


def crash(app: Application) -> None:
    """What kill -9 between two turns leaves of the broker: nothing but what is on the disk. All connections end."""
    broker = broker_of(app)
    for session in list(broker.sessions.values()):
        link, session.link, session.is_broken = session.link, None, True
        for delivery in session.deliveries.values():
            delivery.close()
        if link is not None:
            link.session = None  # type: ignore[attr-defined]
            link.taken_over()
    broker.sessions.clear()
    broker._filters.clear()
    for handle, *_ in broker.wills._due.values():
        handle.cancel()
    broker.wills._due.clear()
    broker.wills._kept.clear()
    app._instance.rest()
    broker.stored.identity = identity = f"1-1-{next(_identities):08x}"
    broker.is_alive = lambda owner: owner == identity
    broker.take_up()
    app._instance.rest()
