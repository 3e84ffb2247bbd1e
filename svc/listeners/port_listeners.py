"""The listeners of applications on one port, arranged into the chains that requests go through (spec: http §12)."""

from __future__ import annotations

from collections.abc import Iterable

from svc.http.dispatch import Dispatcher
from svc.listeners.order import ordered
from svc.listeners.request_chain import RequestChain
from svc.listeners.scopes import ListenerScopes
from svc.listeners.step import AUTHENTICATION, BUILT_IN, DEFAULT_UPGRADE, GRAPHQL, HTTP, REST, STATIC, UPGRADE, WS, Step
from svc.listeners.upgrade_chain import UpgradeChain


class PortListeners:
    """`serves_resources`: whether REST answers on this port. `scopes`: what listeners are called in."""

    def __init__(
        self,
        dispatcher: Dispatcher,
        upgrades: UpgradeChain,
        *,
        serves_resources: bool,
        scopes: ListenerScopes | None,
    ) -> None:
        self._dispatcher = dispatcher
        self._upgrades = upgrades
        self._serves_resources = serves_resources
        self._scopes = scopes
        self._registered: list[Step] = []
        self.staged = 0
        """How many listeners wait for their application to take effect."""
        self.faults: list[str] = []
        """What could not be met of the listeners' wishes when they were last arranged."""

    def __len__(self) -> int:
        return len(self._registered)

    @property
    def are_used(self) -> bool:
        """Whether there is a listener, or will be."""
        return bool(self._registered or self.staged)

    def change(self, added: Iterable[Step], removed: Iterable[Step] = ()) -> None:
        """Add and remove listeners, and arrange them anew; requests under way keep their chain."""
        gone = set(removed)
        self._registered = [each for each in self._registered if each not in gone] + list(added)
        self.faults = []
        self._arrange_requests()
        upgrades = self._order(UPGRADE, (Step(DEFAULT_UPGRADE),), DEFAULT_UPGRADE)
        self._upgrades.use(upgrades, self._order(WS))

    def _arrange_requests(self) -> None:
        steps = self._order(HTTP, tuple(map(Step, BUILT_IN)), AUTHENTICATION)
        absent = {STATIC} if self._serves_resources else {STATIC, GRAPHQL, REST}
        asked = [step for step in steps if step.listener is not None or step.name not in absent]
        has_listeners = any(step.listener is not None for step in asked)
        self._dispatcher.use(RequestChain(asked, self._scopes) if has_listeners or not self._serves_resources else None)

    def _order(self, kind: str, built_in: tuple[Step, ...] = (), routed_after: str = "") -> list[Step]:
        listeners = [each for each in self._registered if each.kind == kind]
        return ordered(listeners, built_in, routed_after=routed_after, warn=self.faults.append)
