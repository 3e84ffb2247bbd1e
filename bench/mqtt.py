"""What MQTT costs the server: CPU time per message and memory per connection, beside other interfaces of svc and beside other brokers.

    python -m bench.mqtt [--rows fan-out-0,record-1] [--servers svc,mosquitto] [--rounds 3] [--seconds 3] [--messages 50]

Real server processes on one core, this process on the other: the clients are plain sockets, and the messages are encoded beforehand (`mqtt_load.py`). The
figure is the CPU time of the server process, user and system, the kernel's part included, per message; the clients' is not in it. Each row starts
servers of its own. Every round measures all of them in turn; shown are medians, and medians of the ratios within the rounds. Every message is counted and
every acknowledgement read: one that is missing or wrong ends the run. MQTT 3.1.1, messages of 256 bytes that are JSON objects, records with the same content.

What an acknowledgement promises differs: it stands in the last column.

- svc as it is delivered: a user with a password, rights, analytics, the transaction log. An acknowledged message is flushed to the disk. *WebSocket*, *PUT*:
  the same server asked over its other interfaces, with the same client.
- mosquitto without persistence, and, where something is kept, with `persistence`, `autosave_on_changes` and `autosave_interval 1`, which writes the whole state
  after a change. No login.
- amqtt with its plugin for anonymous clients and no other. No login.

Not included: networks, TLS, several cores, the time of the client.
"""

from __future__ import annotations

import argparse
import os
import random
import resource
import signal
import socket
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass
from functools import cache
from itertools import count
from pathlib import Path
from typing import ClassVar

from bench.fan_out import Audience, Receiver, Subscriber, heads
from bench.machine import describe_machine, flush_cost, warn_of_build, warn_of_load
from bench.measure import CLIENT_CORE, cpu_seconds, memory
from bench.mqtt_load import Client, Follower, Load, Step, Steps, publish_steps
from bench.peers.mqtt_brokers import Amqtt, Broker, Mosquitto, SavingMosquitto
from bench.report import figure, spread, table
from bench.servers import HERE, USER, Svc, dump, free_port

SIZE = 256  # bytes of a message
RECORDS = 1000  # that are written in turn
CONNECTIONS = 32  # that publish
WARM_UP = 0.5  # seconds, or ...
WARM_UP_MESSAGES = 3  # ... messages to an audience
RECEIVERS = 100  # of the messages of `matching`, one each
FILTERS = 1000  # of each of them: as many as a session of svc may have
ENTRIES, OF_INTEREST = 100_000, 100  # messages while a session is away, and those that it gets
IDLE = 3000  # connections whose memory is measured
FIRST = 50  # before them: what is made once
ALIVE, PING_SECONDS = 10_000, 60  # connections that send PINGREQ, and how often each does
OTHER_FILES = 200  # descriptors beside the connections
TURNS = 50  # whose pages are counted
PAGE = 4096
SCHEMA = "type Reading @table @export { id: ID @primaryKey sensor: String value: Float text: String }\n"
RECORD = "Reading/audience"
MARK = b'"type":"'  # in each event over a WebSocket


class MqttSvc(Svc):
    durability = "flushed to the disk"
    install: ClassVar[str] = ""

    def __init__(self, data: Path) -> None:
        super().__init__(data)
        self.mqtt_port = free_port()
        self.login = (USER, self.password)

    @classmethod
    def version(cls) -> str:
        from svc import __version__

        return __version__

    def command(self) -> list[str]:
        return [sys.executable, "-m", "svc", "run", str(self.data / "app")]

    def environment(self) -> dict[str, str]:
        return super().environment() | {"MQTT_NETWORK_PORT": str(self.mqtt_port)}

    def prepare(self) -> None:
        folder = self.data / "app"
        folder.mkdir(parents=True)
        (folder / "schema.graphql").write_text(SCHEMA)

    def start(self) -> None:
        super().start()
        self.await_port(self.mqtt_port)


AnyServer = MqttSvc | Broker
SERVERS: dict[str, type[MqttSvc] | type[Broker]] = {kind.name: kind for kind in (MqttSvc, Mosquitto, SavingMosquitto, Amqtt)}
SVC, MOSQUITTO, SAVING, AMQTT = SERVERS
WEBSOCKET, PUT = "svc, WebSocket", "svc, PUT"

Measure = Callable[[], float]
"""One measurement; its figure."""
Prepare = Callable[[AnyServer, ExitStack, argparse.Namespace], Measure]


@dataclass(frozen=True)
class Contestant:
    server: str
    prepare: Prepare


@dataclass(frozen=True)
class Target:
    """What svc is to reach beside another figure: `times` as much, or so much `more`."""

    times: float | None = None
    more: float | None = None


@dataclass(frozen=True)
class Row:
    """`contestants`: by what the table calls them; the first one is svc. `limit`: of its figure. `targets`: beside the others. `is_once`: not every round."""

    title: str
    unit: str
    contestants: dict[str, Contestant]
    targets: dict[str, Target]
    limit: float | None = None
    is_once: bool = False


# --- messages ----------------------------------------------------------------------------------------------------------------------------


def payload(number: int) -> bytes:
    """A JSON object of SIZE bytes, another one for each number."""
    value = {"sensor": f"s{number:09}", "value": number % 1000 + 0.5, "text": ""}
    value["text"] = "x" * (SIZE - len(dump(value)))
    return dump(value)


def record_topic(number: int) -> str:
    return f"Reading/r{number % RECORDS}"


def put_steps(server: Svc, target: str, body: bytes) -> Steps:
    fields = "".join(f"{name}: {value}\r\n" for name, value in server.fields)
    head = f"PUT /{target} HTTP/1.1\r\nHost: localhost\r\n{fields}Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    return (Step(head.encode() + body, b"HTTP/1.1 204", b"\r\n\r\n"),)


def settle(pid: int) -> float:
    """CPU seconds of the server once it has nothing left to do with what it was sent."""
    used = cpu_seconds(pid)
    while True:
        time.sleep(0.05)
        now = cpu_seconds(pid)
        if now - used < 0.002:
            return now
        used = now


# --- one message to many -----------------------------------------------------------------------------------------------------------------


def fan_out(subscribers: int, qos: int, *, websocket: bool = False) -> Prepare:
    """CPU time per delivery, the publish itself included. Each message is sent when all have the one before."""

    def prepare(server: AnyServer, stack: ExitStack, options: argparse.Namespace) -> Measure:
        numbers = count()

        def receivers() -> Iterable[Receiver]:
            if websocket:
                assert isinstance(server, MqttSvc)
                head = heads(server, f"/{RECORD}")["websocket"]
                return (Subscriber(server.port, head, MARK) for _ in range(subscribers))
            return (Follower(server, f"follower-{number}", [RECORD], qos) for number in range(subscribers))

        def measure() -> float:
            with closing(Client(server, "publisher")) as publisher:
                publisher.publish(RECORD, payload(next(numbers)), 1, retain=True)
                with closing(Audience(receivers())) as audience:
                    audience.wait()  # the retained message

                    def publish_all(messages: int) -> None:
                        for _ in range(messages):
                            publisher.publish(RECORD, payload(next(numbers)), qos)
                            audience.wait()

                    publish_all(WARM_UP_MESSAGES)
                    used = settle(server.pid)
                    publish_all(options.messages)
                    cost: float = (settle(server.pid) - used) * 1e6 / (options.messages * subscribers)
            settle(server.pid)
            return cost

        return measure

    return prepare


# --- many messages -----------------------------------------------------------------------------------------------------------------------


def publishers(server: AnyServer, stack: ExitStack, qos: int) -> list[Client]:
    """Those at QoS 2 have sessions that last, since only these are exact over a restart; of amqtt not, whose CONNACK then says something else."""
    clean = qos < 2 or server.name == AMQTT
    return [stack.enter_context(closing(Client(server, f"publisher-{number}", clean=clean))) for number in range(CONNECTIONS)]


def publish(qos: int, *, retain: bool) -> Prepare:
    """CPU time per message of CONNECTIONS, with one on its way each."""

    def prepare(server: AnyServer, stack: ExitStack, options: argparse.Namespace) -> Measure:
        messages = [publish_steps(record_topic(number), payload(number), qos, retain) for number in range(RECORDS * 7)]
        clients = publishers(server, stack, qos)
        return measure_load(server, Load([client.sock for client in clients], messages), options)

    return prepare


def put(server: AnyServer, stack: ExitStack, options: argparse.Namespace) -> Measure:
    """The same with PUT of the records that the messages are."""
    assert isinstance(server, MqttSvc)
    messages = [put_steps(server, record_topic(number), payload(number)) for number in range(RECORDS * 7)]
    sockets = [stack.enter_context(socket.create_connection(("127.0.0.1", server.port))) for _ in range(CONNECTIONS)]
    return measure_load(server, Load(sockets, messages), options)


def measure_load(server: AnyServer, load: Load, options: argparse.Namespace) -> Measure:
    load.drive(WARM_UP)

    def measure() -> float:
        used = settle(server.pid)
        messages = load.drive(options.seconds)
        return (settle(server.pid) - used) * 1e6 / messages

    return measure


def bytes_written(pid: int) -> int:
    """By the process, as the kernel counts it when pages of files become dirty: /proc/PID/io, write_bytes."""
    lines = Path(f"/proc/{pid}/io").read_text().splitlines()
    return int(dict(line.split(": ") for line in lines)["write_bytes"])


def pages(qos: int) -> Prepare:
    """Pages of PAGE bytes that the process writes for a turn of CONNECTIONS messages to records. It is stopped while they are sent, so that they come together.
    At QoS 2 each message comes with the PUBREL of the one before on its connection."""

    def prepare(server: AnyServer, stack: ExitStack, options: argparse.Namespace) -> Measure:
        clients = publishers(server, stack, qos)
        numbers = count()
        dice = random.Random(1)

        def turn() -> int:
            before = bytes_written(server.pid)
            os.kill(server.pid, signal.SIGSTOP)
            try:
                made = next(numbers)
                packet_id = 1 + made % 2  # that of the one before is not free yet
                steps = [publish_steps(record_topic(dice.randrange(RECORDS)), payload(made), qos, True, packet_id) for _ in clients]
                late = [step for each in steps for step in each[1:]]
                for at, client in enumerate(clients):
                    client.send(b"".join(step.data for step in (*waiting[at : at + 1], steps[at][0])))
            finally:
                os.kill(server.pid, signal.SIGCONT)
            for at, client in enumerate(clients):
                wanted = b"".join(step.begin for step in (*waiting[at : at + 1], steps[at][0]))
                answer = b""
                while len(answer) < len(wanted):
                    more = client.sock.recv(len(wanted) - len(answer))
                    if not more:
                        raise RuntimeError("the server has closed a connection")
                    answer += more
                if answer != wanted:
                    raise RuntimeError(f"answered with {answer!r} instead of {wanted!r}")
            waiting[:] = late
            settle(server.pid)
            return bytes_written(server.pid) - before

        waiting: list[Step] = []
        for number in range(RECORDS):
            clients[0].publish(record_topic(number), payload(next(numbers)), 1, retain=True)
        return lambda: float(statistics.median(turn() for _ in range(TURNS))) / PAGE

    return prepare


# --- filters and sessions ----------------------------------------------------------------------------------------------------------------


@cache
def filters_of(receiver: int) -> tuple[str, ...]:
    """FILTERS of one receiver, in the main exact ones."""
    group = f"Reading/g{receiver}"
    wild = (
        [f"{group}/+/t{n}" for n in range(40)]
        + [f"{group}/+/u{n}/#" for n in range(30)]
        + [f"Reading/+/v{receiver}-{n}" for n in range(30)]
    )
    return (*wild, *(f"{group}/d{n}" for n in range(FILTERS - len(wild))))


def matching_topic(receiver: int, number: int) -> str:
    """One that exactly one of all filters matches, which is the receiver's; every tenth by a wildcard."""
    text = filters_of(receiver)[number * 7 % FILTERS if number % 10 else number // 10 * 7 % 100]
    group = f"g{receiver}"
    return text.replace("Reading/+", f"Reading/{group}").replace("+", f"p{number}").replace("#", "end")


def matching(per_receiver: int) -> Prepare:
    """CPU time per message that comes to one of RECEIVERS, each of which has so many filters; 1: for all that may come to it. One of each is sent at a time."""

    def prepare(server: AnyServer, stack: ExitStack, options: argparse.Namespace) -> Measure:
        def receivers() -> Iterable[Receiver]:
            for number in range(RECEIVERS):
                yield Follower(server, f"follower-{number}", filters_of(number) if per_receiver > 1 else [f"Reading/g{number}/#"])

        bursts = [
            b"".join(
                publish_bytes(matching_topic(receiver, number * RECEIVERS + receiver), payload(number)) for receiver in range(RECEIVERS)
            )
            for number in range(FILTERS // 10)
        ]
        publisher = stack.enter_context(closing(Client(server, "publisher")))
        audience = stack.enter_context(closing(Audience(receivers())))
        numbers = count()

        def burst() -> None:
            publisher.send(bursts[next(numbers) % len(bursts)])
            audience.wait()

        burst()

        def measure() -> float:
            used, sent, end = settle(server.pid), 0, time.monotonic() + options.seconds
            while time.monotonic() < end:
                burst()
                sent += RECEIVERS
            return (settle(server.pid) - used) * 1e6 / sent

        return measure

    return prepare


def publish_bytes(topic: str, data: bytes) -> bytes:
    """At QoS 0."""
    return publish_steps(topic, data, 0, False)[0].data


def replay(server: AnyServer, stack: ExitStack, options: argparse.Namespace) -> Measure:
    """CPU milliseconds for a session at QoS 1 that comes back after ENTRIES messages, of which it gets OF_INTEREST. svc finds them in its log, others have
    kept them in a queue as they came."""
    publisher = stack.enter_context(closing(Client(server, "publisher")))
    Follower(server, "away", ["Reading/few/#"], 1, clean=False).close()

    def measure() -> float:
        step = ENTRIES // OF_INTEREST
        for first in range(0, ENTRIES, step):
            publisher.send(b"".join(publish_bytes(f"Reading/many/{number}", payload(number)) for number in range(first + 1, first + step)))
            publisher.publish(f"Reading/few/{first}", payload(first), 1)
        used = settle(server.pid)
        follower = Follower(server, "away", clean=False)
        try:
            if not follower.session_present:
                raise RuntimeError("the session was not kept")
            with closing(Audience([follower])) as audience:
                for _ in range(OF_INTEREST):
                    audience.wait()
                took = (settle(server.pid) - used) * 1e3
                follower.close()
        finally:
            follower.sock.close()
        if follower.received != OF_INTEREST:
            raise RuntimeError(f"{follower.received} messages instead of {OF_INTEREST}")
        settle(server.pid)
        return took

    return measure


# --- connections -------------------------------------------------------------------------------------------------------------------------


def idle(*, with_filter: bool) -> Prepare:
    """KiB of the process per connection that does nothing, what the kernel holds for it not included."""

    def prepare(server: AnyServer, stack: ExitStack, options: argparse.Namespace) -> Measure:
        def measure() -> float:
            with ExitStack() as connections:

                def connect(number: int) -> None:
                    client = Follower(server, f"idle-{number}", [f"Reading/idle/{number}"] if with_filter else [])
                    connections.enter_context(closing(client))

                for number in range(FIRST):
                    connect(number)
                settle(server.pid)
                before = memory(server.pid)[1]
                for number in range(FIRST, FIRST + IDLE):
                    connect(number)
                settle(server.pid)
                return (memory(server.pid)[1] - before) / IDLE / 1024

        return measure

    return prepare


def keep_alive(server: AnyServer, stack: ExitStack, options: argparse.Namespace) -> Measure:
    """Per cent of a core for ALIVE connections that send PINGREQ every PING_SECONDS, beyond what the server takes without them. Of fewer, if descriptors
    do not suffice, so much more."""
    seconds = 4 * options.seconds

    def share(clients: Sequence[Client]) -> float:
        """Of a core, while these ping."""
        settle(server.pid)
        used, start = cpu_seconds(server.pid), time.monotonic()
        pings = round(seconds * len(clients) / PING_SECONDS)
        for number in range(pings):
            time.sleep(max(0.0, start + number * seconds / pings - time.monotonic()))
            clients[number % len(clients)].ping()
        time.sleep(max(0.0, start + seconds - time.monotonic()))
        return (cpu_seconds(server.pid) - used) / (time.monotonic() - start)

    def measure() -> float:
        without = share(())
        soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        number = min(ALIVE, soft - OTHER_FILES)
        with ExitStack() as connections:
            clients: list[Client] = []
            for at in range(number):
                client = Client(server, f"alive-{at}", keep_alive=PING_SECONDS)
                clients.append(connections.enter_context(closing(client)))
            return (share(clients) - without) * 100 * ALIVE / number

    return measure


# --- the rows ----------------------------------------------------------------------------------------------------------------------------


def all_brokers(prepare: Prepare, *, saving: bool = False) -> dict[str, Contestant]:
    return {name: Contestant(name, prepare) for name in SERVERS if saving or name != SAVING}


def fan_out_row(subscribers: int, qos: int, targets: dict[str, Target]) -> Row:
    contestants = all_brokers(fan_out(subscribers, qos))
    svc = contestants.pop(SVC)
    return Row(
        f"one message at QoS {qos} to {subscribers:,} subscribers, per delivery",
        "µs",
        {SVC: svc, WEBSOCKET: Contestant(SVC, fan_out(subscribers, qos, websocket=True)), **contestants},
        targets,
    )


def publish_row(title: str, prepare: Prepare, targets: dict[str, Target]) -> Row:
    contestants = all_brokers(prepare, saving=True)
    svc = contestants.pop(SVC)
    return Row(title, "µs", {SVC: svc, PUT: Contestant(SVC, put), **contestants}, targets)


QOS_0 = {WEBSOCKET: Target(times=1.1), MOSQUITTO: Target(times=2), AMQTT: Target(times=1 / 2.5)}
QOS_1 = {WEBSOCKET: Target(times=1.7), AMQTT: Target(times=1 / 5)}
ROWS: dict[str, Row] = {
    "fan-out-0": fan_out_row(1000, 0, QOS_0),
    "fan-out-0-400": fan_out_row(400, 0, QOS_0),
    "fan-out-1": fan_out_row(1000, 1, QOS_1),
    "fan-out-1-400": fan_out_row(400, 1, QOS_1),
    "record-1": publish_row("publish at QoS 1 with RETAIN: a record", publish(1, retain=True), {PUT: Target(times=0.9)}),
    "record-2": publish_row("publish at QoS 2 with RETAIN: a record", publish(2, retain=True), {PUT: Target(times=1.4)}),
    "message-1": publish_row(
        "publish at QoS 1, no record, no subscriber", publish(1, retain=False), {PUT: Target(times=0.7), AMQTT: Target(times=1)}
    ),
    "pages": Row(
        f"written for a turn of {CONNECTIONS} publishes at QoS 2 to records (write_bytes of the process / {PAGE})",
        "pages",
        {SVC: Contestant(SVC, pages(2)), "svc, QoS 1": Contestant(SVC, pages(1))},
        {"svc, QoS 1": Target(more=4)},
        is_once=True,
    ),
    "matching": Row(
        f"a message at QoS 0 that one of {RECEIVERS * FILTERS:,} filters matches",
        "µs",
        {
            f"{name}{more}": Contestant(name, matching(filters))
            for name in (SVC, MOSQUITTO, AMQTT)
            for more, filters in (("", FILTERS), (f", {RECEIVERS} filters", 1))
        },
        {f"{SVC}, {RECEIVERS} filters": Target(more=10)},
    ),
    "replay": Row(  # amqtt answers the CONNECT of a session that it has kept as if it had none
        f"a session comes back after {ENTRIES:,} messages, and gets {OF_INTEREST} of them",
        "ms",
        {name: Contestant(name, replay) for name in (SVC, MOSQUITTO)},
        {},
        limit=150,
    ),
    "idle": Row("memory of an idle connection", "KiB", all_brokers(idle(with_filter=False)), {}, limit=3, is_once=True),
    "idle-filter": Row("… with a filter of its own", "KiB", all_brokers(idle(with_filter=True)), {}, limit=8, is_once=True),
    "keep-alive": Row(
        f"{ALIVE:,} connections that send PINGREQ every {PING_SECONDS} s", "% of a core", all_brokers(keep_alive), {}, limit=1, is_once=True
    ),
}


# --- measuring, and the table ------------------------------------------------------------------------------------------------------------

Samples = dict[str, list[float]]
"""Contestant -> a figure per round."""


def measure_row(name: str, row: Row, options: argparse.Namespace, scratch: Path) -> Samples:
    samples: Samples = {}
    with ExitStack() as stack:
        measures: dict[str, Measure] = {}
        for number, (title, contestant) in enumerate(row.contestants.items()):
            if contestant.server not in options.servers:
                continue
            server = SERVERS[contestant.server](scratch / f"{name}-{number}")
            server.prepare()
            stack.callback(server.stop)
            server.start()
            measures[title] = contestant.prepare(server, stack.enter_context(ExitStack()), options)
        for round_ in range(1 if row.is_once else options.rounds):
            for title, measure in measures.items():
                found = measure()
                samples.setdefault(title, []).append(found)
                print(f"round {round_ + 1}  {name:<14} {title:<24} {found:10.2f} {row.unit}", flush=True)
    return samples


def verdict(target: str, is_met: bool) -> str:
    return f"{target} {'✓' if is_met else '✗'}"


def lines_of(row: Row, samples: Samples) -> list[list[str]]:
    own = next(iter(row.contestants))
    lines: list[list[str]] = []
    for name, contestant in row.contestants.items():
        if name not in samples:
            continue
        found = samples[name]
        around = f" ±{spread([{'': value} for value in found], ''):.0%}" if len(found) > 1 else ""
        cells = [f"{row.title}, {row.unit}" if not lines else "", name, figure(statistics.median(found)) + around]
        ratio = wanted = ""
        if name == own:
            if row.limit is not None:
                wanted = verdict(f"≤ {row.limit:g}", statistics.median(found) <= row.limit)
        elif own in samples:
            pairs = list(zip(samples[own], found, strict=True))
            target = row.targets.get(name, Target())
            if target.more is not None:
                more = statistics.median(a - b for a, b in pairs)
                ratio, wanted = f"{more:+.1f}", verdict(f"≤ +{target.more:g}", more <= target.more)
            else:
                times = statistics.median(a / b for a, b in pairs)
                ratio = f"{times:.2f} ×" if times >= 0.01 else f"{times:.1g} ×"
                if target.times is not None:
                    wanted = verdict(f"≤ {target.times:g} ×", times <= target.times)
        lines.append([*cells, ratio, wanted, SERVERS[contestant.server].durability])
    return lines


def make_table(samples: dict[str, Samples]) -> str:
    header = ["CPU time of the server, or what the row names", "server", "figure", "svc beside it", "target", "what it has acknowledged is"]
    return table(header, [line for name, found in samples.items() for line in lines_of(ROWS[name], found)])


def facts(options: argparse.Namespace, scratch: Path) -> str:
    versions = ", ".join(f"{SERVERS[name].name} {SERVERS[name].version()}" for name in options.servers if name != SAVING)
    return (
        f"{'; '.join(describe_machine().values())}. {options.rounds} rounds of {options.seconds:g} s, or of {options.messages} messages to all. "
        f"Writing and flushing 4 KiB took {flush_cost(scratch):.2f} ms here. {versions}."
    )


def parse(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", default=",".join(ROWS), help="comma-separated: %(default)s")
    parser.add_argument("--servers", default=",".join(SERVERS), help="comma-separated: %(default)s")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=3.0, help="of one measurement of messages from many")
    parser.add_argument("--messages", type=int, default=50, help="of one measurement of messages to many")
    parser.add_argument(
        "--data", type=Path, default=HERE / "results" / "data", help="where the servers keep their data: must be on a real disk"
    )
    options = parser.parse_args(arguments)
    options.rows, options.servers = options.rows.split(","), options.servers.split(",")
    for name in set(options.rows) - set(ROWS) | set(options.servers) - set(SERVERS):
        parser.error(f"there is no row or server '{name}'")
    return options


def main() -> None:
    options = parse()
    warn_of_build()
    warn_of_load()
    for name in list(options.servers):
        if not SERVERS[name].available():
            print(f"{name} is left out; to have it: {SERVERS[name].install}", file=sys.stderr)
            options.servers.remove(name)
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))  # of the servers, too
    options.data.mkdir(parents=True, exist_ok=True)
    samples: dict[str, Samples] = {}
    with tempfile.TemporaryDirectory(dir=options.data) as directory:
        scratch = Path(directory)
        about = facts(options, scratch)
        os.sched_setaffinity(0, {CLIENT_CORE})
        for name in options.rows:
            samples[name] = measure_row(name, ROWS[name], options, scratch)
    print(f"\n{about}\n\n{make_table(samples)}")


if __name__ == "__main__":
    main()
