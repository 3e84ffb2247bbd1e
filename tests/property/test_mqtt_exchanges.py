"""Exchanges at QoS 2 against a peer that keeps to the standard, over a wire that is cut and a server that is killed: each message once, in order."""

from __future__ import annotations

from collections import deque

from hypothesis import Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from svc.protocol.mqtt_exchanges import ReceivedExchanges, SentExchanges
from svc.protocol.mqtt_states import Action, Input, Sent

IDS = (1, 2, 3)


class Receiving(RuleBasedStateMachine):
    """A client sends messages; the server commits them. `written` and `rows` are what survives."""

    @initialize()
    def start(self) -> None:
        self.exchanges = ReceivedExchanges()
        self.written: list[int] = []
        self.rows: set[int] = set()
        self.pending: list[tuple[Action, int, int]] = []
        self.to_server: deque[tuple[Input, int, int]] = deque()
        self.to_client: deque[tuple[Action, int]] = deque()
        self.flying: dict[int, tuple[Input, int]] = {}  # of the client: id -> what it repeats, message
        self.sent = 0
        self.refused: set[int] = set()
        self.late: set[int] = set()  # their commit has failed: if the client has not heard it, it repeats them, and they come behind others

    @precondition(lambda self: len(self.flying) < len(IDS))
    @rule()
    def send(self) -> None:
        packet_id = next(each for each in IDS if each not in self.flying)
        self.sent += 1
        self.flying[packet_id] = (Input.PUBLISH, self.sent)
        self.to_server.append((Input.PUBLISH, packet_id, self.sent))

    @precondition(lambda self: self.to_server)
    @rule()
    def receive(self) -> None:
        what, packet_id, message = self.to_server.popleft()
        action = self.exchanges.on(packet_id, what)
        if action in (Action.WRITE, Action.REMOVE):
            self.pending.append((action, packet_id, message))
        elif action is not Action.NOTHING:
            self.to_client.append((action, packet_id))

    @precondition(lambda self: self.pending)
    @rule()
    def commit(self) -> None:
        pending, self.pending = self.pending, []
        for action, packet_id, message in pending:
            if action is Action.WRITE:
                self.written.append(message)
                self.rows.add(packet_id)
            else:
                self.rows.discard(packet_id)
        for _, packet_id, _ in pending:
            self.tell(packet_id, Input.COMMITTED)

    def tell(self, packet_id: int, what: Input) -> None:
        action = self.exchanges.on(packet_id, what)
        if action is not Action.NOTHING:
            self.to_client.append((action, packet_id))

    @precondition(lambda self: self.pending)
    @rule()
    def fail(self) -> None:
        pending, self.pending = self.pending, []
        self.late.update(message for action, _, message in pending if action is Action.WRITE)
        answers = [(self.exchanges.on(packet_id, Input.FAILED), packet_id) for _, packet_id, _ in pending]
        if any(action is Action.CLOSE for action, _ in answers):
            self.cut()
        else:
            self.to_client.extend(each for each in answers if each[0] is not Action.NOTHING)

    @precondition(lambda self: self.to_client)
    @rule()
    def answer(self) -> None:
        action, packet_id = self.to_client.popleft()
        what, message = self.flying[packet_id]
        if action is Action.PUBREC:
            assert what is Input.PUBLISH
            self.flying[packet_id] = (Input.PUBREL, message)
            self.to_server.append((Input.PUBREL, packet_id, message))
        elif action is Action.REFUSE:
            self.refused.add(message)
            del self.flying[packet_id]
        else:
            assert action in (Action.PUBCOMP, Action.NOT_FOUND) and what is Input.PUBREL
            del self.flying[packet_id]

    @rule()
    def cut(self) -> None:
        """The connection ends, and the client comes back."""
        self.exchanges.resume()
        self.to_client.clear()
        self.to_server.clear()
        for packet_id, (what, message) in sorted(self.flying.items(), key=lambda each: each[1][1]):
            self.to_server.append((what, packet_id, message))

    @rule()
    def kill(self) -> None:
        self.pending.clear()
        self.exchanges = ReceivedExchanges(iter(self.rows))
        self.cut()

    @invariant()
    def nothing_is_doubled(self) -> None:
        in_order = [message for message in self.written if message not in self.late]
        assert in_order == sorted(in_order) and len(set(self.written)) == len(self.written)

    def teardown(self) -> None:
        while self.to_server or self.pending or self.to_client:
            if self.to_server:
                self.receive()
            elif self.pending:
                self.commit()
            else:
                self.answer()
        assert set(self.written) | self.refused == set(range(1, self.sent + 1)) and not set(self.written) & self.refused
        assert not self.flying and not self.rows and not len(self.exchanges)


class Sending(RuleBasedStateMachine):
    """The server sends the messages of a log to a client. `rows` survives: id -> (state, message), None: it is done, but the last one."""

    @initialize(window=st.integers(1, 3))
    def start(self, window: int) -> None:
        self.log = 0
        self.window = window
        self.rows: dict[int, tuple[Sent | None, int]] = {}
        self.seen: list[int] = []
        self.known: set[int] = set()  # of the client: ids that it has received and that are not released
        self.restart()

    def restart(self) -> None:
        self.exchanges = SentExchanges(self.window)
        self.messages = {packet_id: message for packet_id, (state, message) in self.rows.items() if state is not None}
        for packet_id, (state, _) in sorted(self.rows.items(), key=lambda each: each[1][1]):
            if state is not None:
                self.exchanges.restore(packet_id, state)
        self.position = max((message for _, message in self.rows.values()), default=0)
        self.pending: list[tuple[Action | None, int, int]] = []
        self.resume()

    def resume(self) -> None:
        self.to_client: deque[tuple[Action, int, int]] = deque(
            (action, packet_id, self.messages[packet_id]) for packet_id, action in self.exchanges.resume()
        )
        self.to_server: deque[tuple[Input, int]] = deque()

    @rule()
    def publish(self) -> None:
        self.log += 1

    @precondition(lambda self: self.position < self.log and self.exchanges.has_room)
    @rule()
    def take(self) -> None:
        self.position += 1
        packet_id = self.exchanges.begin(2)
        self.messages[packet_id] = self.position
        self.pending.append((None, packet_id, self.position))

    @precondition(lambda self: self.pending)
    @rule()
    def commit(self) -> None:
        pending, self.pending = self.pending, []
        for action, packet_id, message in pending:
            if action is None:
                self.rows[packet_id] = (Sent.SENT, message)
            elif action is Action.NOTE:
                self.rows[packet_id] = (Sent.RELEASED, message)
            elif self.rows.get(packet_id, (None, 0))[1] == message:  # lazily: the id may be another message's by now
                self.rows[packet_id] = (None, message)
        highest = max(message for _, message in self.rows.values())
        self.rows = {key: value for key, value in self.rows.items() if value[0] is not None or value[1] == highest}
        for action, packet_id, message in pending:
            if action in (None, Action.NOTE):
                self.to_client.append((self.exchanges.on(packet_id, Input.COMMITTED), packet_id, message))

    @precondition(lambda self: self.to_client)
    @rule()
    def deliver(self) -> None:
        action, packet_id, message = self.to_client.popleft()
        if action in (Action.PUBLISH, Action.PUBLISH_AGAIN):
            if packet_id not in self.known:
                self.seen.append(message)
                self.known.add(packet_id)
            self.to_server.append((Input.PUBREC, packet_id))
        elif action is Action.PUBREL:
            self.known.discard(packet_id)
            self.to_server.append((Input.PUBCOMP, packet_id))

    @precondition(lambda self: self.to_server)
    @rule()
    def receive(self) -> None:
        what, packet_id = self.to_server.popleft()
        action = self.exchanges.on(packet_id, what)
        if action in (Action.NOTE, Action.FORGET):
            self.pending.append((action, packet_id, self.messages[packet_id]))
        elif action is Action.PUBREL:
            self.to_client.append((action, packet_id, 0))

    @rule()
    def cut(self) -> None:
        self.resume()

    @rule()
    def kill(self) -> None:
        self.restart()

    @invariant()
    def nothing_is_doubled_or_out_of_order(self) -> None:
        assert self.seen == list(range(1, len(self.seen) + 1))
        assert len(self.exchanges) <= self.window

    def teardown(self) -> None:
        while len(self.seen) < self.log or self.pending or self.to_client or self.to_server:
            if self.to_client:
                self.deliver()
            elif self.to_server:
                self.receive()
            elif self.pending:
                self.commit()
            else:
                self.take()
        assert not len(self.exchanges) and not self.known


TestReceiving = Receiving.TestCase
TestSending = Sending.TestCase
TestReceiving.settings = TestSending.settings = settings(
    stateful_step_count=60, phases=[each for each in Phase if each is not Phase.shrink]
)
