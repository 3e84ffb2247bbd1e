"""Clients that write and read the same few records over all interfaces, each in a thread of its own, and record what they were answered."""

from __future__ import annotations

import contextlib
import json
import random
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar

from fuzz.consistency.history import GROUPS, KEYS, RELEASE, TORN, NoOutcome, NotDone, Recorder, Register, Told
from fuzz.consistency.publisher import Publisher
from fuzz.consistency.transport import Answer, Http
from tests.support.linearizability import Action, Record, State
from tests.support.waiting import wait_until

PAUSE = 0.02  # seconds at most between two calls of a client
SHORT, LONG = 4, 80  # records of a list; more than 50 are a long write
LISTS = 3  # in an era
CODES = 4


def body_of(value: Record) -> dict[str, Any]:
    return {"n": value.n, "count": value.count, "group": value.group}


def state_of(body: Any) -> State:
    return None if body is None else Record(body["n"], body.get("count") or 0, body.get("group") or "")


class Client(threading.Thread):
    """`actions`: what one of this kind does, by chance: names of methods, each with a weight."""

    actions: ClassVar[Mapping[str, int]] = {}

    def __init__(self, number: int, seed: int, recorder: Recorder, port_of: Callable[[str], int]) -> None:
        super().__init__(name=f"{type(self).__name__.lower()}-{number}", daemon=True)
        self.source = random.Random(f"{seed} {self.name}")
        self.recorder = recorder
        self.http = Http(port_of, self.source, recorder)
        self.port_of = port_of
        self.is_over = threading.Event()
        self.failure: BaseException | None = None

    def run(self) -> None:
        names, weights = list(self.actions), list(self.actions.values())
        try:
            while not self.is_over.wait(self.source.random() * PAUSE):
                getattr(self, self.source.choices(names, weights)[0])()
        except BaseException as error:
            self.failure = error
            raise
        finally:
            self.close()

    def close(self) -> None:
        self.http.close()

    def attempt(self, effects: Mapping[Register, Action], send: Callable[[], Told | None]) -> bool:
        return self.recorder.attempt(self.name, effects, send)

    def expect(self, answer: Answer, *statuses: int) -> Answer:
        """Any other status is a fault of the server, or of this program."""
        if answer.status not in statuses:
            self.recorder.faults.append(f"{self.name}: {answer}")
            raise NotDone
        return answer

    # -- what they choose

    def item(self) -> Register:
        return "Item", f"e{self.recorder.era}-{self.source.randrange(KEYS)}"

    def group(self) -> str:
        return f"e{self.recorder.era}-g{self.source.randrange(GROUPS)}"

    def value(self, register: Register) -> Record:
        """Its group is of the era of the key."""
        era = register[1].partition("-")[0]
        return Record(self.recorder.number(), self.source.randrange(3), f"{era}-g{self.source.randrange(GROUPS)}")

    def item_and_value(self) -> tuple[Register, Record]:
        register = self.item()
        return register, self.value(register)

    def several(self) -> list[tuple[Register, Record]]:
        """Records of one call."""
        found = self.source.sample(self.items_in(self.group()), self.source.randint(1, 3))
        return [(register, self.value(register)) for register in found]

    def named_list(self) -> tuple[str, int]:
        """Name and length."""
        number = self.source.randrange(LISTS)
        return f"e{self.recorder.era}-l{number}", SHORT if number else LONG

    def items_in(self, group: str) -> list[Register]:
        return [("Item", f"{group.partition('-')[0]}-{number}") for number in range(KEYS)]

    def found_in(self, group: str, rows: Sequence[Mapping[str, Any]]) -> dict[Register, bool | State]:
        """What a search for a group has told of each record that may be in it."""
        told: dict[Register, bool | State] = dict.fromkeys(self.items_in(group))
        for row in rows:
            if ("Item", row["id"]) not in told:
                self.recorder.faults.append(f"{self.name}: a search for {group} has found {row}")
            told["Item", row["id"]] = state_of(row)
        return told

    def search(self, ask: Callable[[str], Sequence[Mapping[str, Any]]]) -> None:
        group = self.group()
        value = Record(0, 0, group)
        self.attempt({register: Action("find", value) for register in self.items_in(group)}, lambda: self.found_in(group, ask(group)))


class Rest(Client):
    actions: ClassVar = {
        "put": 10, "patch": 8, "delete": 3, "get": 10, "create": 4, "post": 3, "swap": 6, "remove": 2, "put_several": 2, "sweep": 1, "find": 4,
        "put_list": 3, "delete_list": 1, "get_list": 5, "take": 4, "free": 3, "look": 3, "family": 3, "child": 6,
        "child_read": 3, "end_family": 1, "release": 2,
    }  # fmt: skip

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.taken: list[tuple[str, int]] = []
        self.parents: list[str] = []

    def put(self) -> None:
        (table, key), value = self.item_and_value()
        body = {**body_of(value), "extra": value.n % 5}
        self.attempt({(table, key): Action("put", value)}, lambda: self.done(self.http.ask("PUT", f"/Item/{key}", body), 204))

    def done(self, answer: Answer, *statuses: int) -> None:
        self.expect(answer, *statuses)

    def patch(self) -> None:
        (table, key), n = self.item(), self.recorder.number()
        body = {"n": n, "count": {"__op__": "add", "value": 1}}
        self.attempt({(table, key): Action("add", Record(n, 1))}, lambda: self.done(self.http.ask("PATCH", f"/Item/{key}", body), 204))

    def delete(self) -> None:
        table, key = self.item()
        self.attempt({(table, key): Action("delete")}, lambda: self.done(self.http.ask("DELETE", f"/Item/{key}"), 204))

    def read(self, path: str) -> State:
        answer = self.expect(self.http.ask("GET", path), 200, 404)
        return state_of(answer.json()) if answer.status == 200 else None

    def get(self) -> None:
        register = self.item()
        self.attempt({register: Action("get")}, lambda: {register: self.read(f"/Item/{register[1]}")})

    def create(self) -> None:
        register, value = self.item_and_value()

        def send() -> Told:
            answer = self.http.ask("PUT", f"/Item/{register[1]}", body_of(value), If_None_Match="*")
            return {register: self.expect(answer, 204, 412).status == 204}

        self.attempt({register: Action("insert", value)}, send)

    def post(self) -> None:
        register, value = self.item_and_value()

        def send() -> Told:
            answer = self.http.ask("POST", "/Item/", {"id": register[1], **body_of(value)})
            return {register: self.expect(answer, 201, 409).status == 201}

        self.attempt({register: Action("insert", value)}, send)

    def swap(self) -> None:
        self.if_unchanged(*self.item_and_value())

    def remove(self) -> None:
        self.if_unchanged(self.item(), None)

    def if_unchanged(self, register: Register, value: State) -> None:
        """Replace, or delete, what has just been read."""
        path = f"/Item/{register[1]}"
        with contextlib.suppress(NotDone, NoOutcome):
            found = self.expect(self.http.ask("GET", path), 200, 404)
            if found.status == 404:
                return
            tag = found.fields["etag"]

            def send() -> Told:
                answer = self.http.ask("PUT", path, body_of(value), If_Match=tag) if value else self.http.ask("DELETE", path, If_Match=tag)
                return {register: self.expect(answer, 204, 412).status == 204}

            self.attempt({register: Action("swap" if value else "remove", value, found.json()["n"])}, send)

    def put_several(self) -> None:
        several = self.several()
        body = [{"id": key, **body_of(value)} for (_, key), value in several]
        effects = {register: Action("put", value) for register, value in several}
        self.attempt(effects, lambda: self.done(self.http.ask("PUT", "/Item/", body), 204))

    def sweep(self) -> None:
        group = self.group()
        effects = {register: Action("sweep", Record(0, 0, group)) for register in self.items_in(group)}
        self.attempt(effects, lambda: self.done(self.http.ask("DELETE", f"/Item/?group=={group}"), 204))

    def find(self) -> None:
        self.search(lambda group: self.expect(self.http.ask("GET", f"/Item/?group=={group}"), 200).json())

    def release(self) -> None:
        """The version of a second application."""

        def send() -> Told:
            answer = self.expect(self.http.ask("GET", "/Release"), 200, 404)
            return {RELEASE: Record(answer.json()["version"]) if answer.status == 200 else None}

        self.attempt({RELEASE: Action("get")}, send)

    # lists that are written as a whole

    def members(self, name: str, size: int, n: int) -> list[dict[str, Any]]:
        return [{"id": f"{name}-{number}", "list": name, "n": n} for number in range(size)]

    def put_list(self) -> None:
        (name, size), n = self.named_list(), self.recorder.number()
        body = self.members(name, size, n)
        self.attempt({("list", name): Action("put", Record(n))}, lambda: self.done(self.http.ask("PUT", "/Member/", body), 204))

    def delete_list(self) -> None:
        name, _ = self.named_list()
        self.attempt({("list", name): Action("delete")}, lambda: self.done(self.http.ask("DELETE", f"/Member/?list=={name}"), 204))

    def get_list(self) -> None:
        name, size = self.named_list()
        register = ("list", name)

        def send() -> Told:
            rows = self.expect(self.http.ask("GET", f"/Member/?list=={name}"), 200).json()
            numbers = {row["n"] for row in rows}
            whole = len(numbers) == 1 and len(rows) == size
            return {register: Record(numbers.pop()) if whole else Record(TORN) if rows else None}

        self.attempt({register: Action("get")}, send)

    # unique values: each record is written once

    def code(self) -> str:
        return f"e{self.recorder.era}-c{self.source.randrange(CODES)}"

    def take(self) -> None:
        code, n = self.code(), self.recorder.number()
        register = ("code", code)

        def send() -> Told:
            answer = self.http.ask("PUT", f"/Code/{n}", {"code": code, "n": n})
            return {register: self.expect(answer, 204, 409).status == 204}

        self.taken.append((code, n))
        self.attempt({register: Action("insert", Record(n))}, send)

    def free(self) -> None:
        if self.taken:
            code, n = self.taken.pop(self.source.randrange(len(self.taken)))
            self.attempt({("code", code): Action("remove", expected=n)}, lambda: self.done(self.http.ask("DELETE", f"/Code/{n}"), 204))

    def look(self) -> None:
        code = self.code()
        register = ("code", code)

        def send() -> Told:
            rows = self.expect(self.http.ask("GET", f"/Code/?code=={code}"), 200).json()
            return {register: None if not rows else Record(rows[0]["n"] if len(rows) == 1 else TORN)}

        self.attempt({register: Action("get")}, send)

    # children that go with their parent

    def children(self, parent: str) -> Sequence[Register]:
        return [("Child", f"{parent.partition('-')[0]}-{number}") for number in range(KEYS)]

    def family(self) -> None:
        parent = f"e{self.recorder.era}-p{self.recorder.number()}"
        if self.attempt(
            {("parent", parent): Action("put", Record(1))}, lambda: self.done(self.http.ask("PUT", f"/Parent/{parent}", {}), 204)
        ):
            self.parents.append(parent)

    def child(self) -> None:
        parents = [parent for parent in self.parents if parent.startswith(f"e{self.recorder.era}-")]
        if parents:
            parent, n = self.source.choice(parents), self.recorder.number()
            register = self.source.choice(self.children(parent))
            body = {"n": n, "group": parent}
            self.attempt(
                {register: Action("put", Record(n, 0, parent))}, lambda: self.done(self.http.ask("PUT", f"/Child/{register[1]}", body), 204)
            )

    def child_read(self) -> None:
        register = self.source.choice(self.children(f"e{self.recorder.era}-"))
        self.attempt({register: Action("get")}, lambda: {register: self.read(f"/Child/{register[1]}")})

    def end_family(self) -> None:
        """The only deletion of this parent, which is there: else nothing would go with it."""
        if self.parents:
            parent = self.parents.pop(self.source.randrange(len(self.parents)))
            effects = {register: Action("sweep", Record(0, 0, parent)) for register in self.children(parent)}
            effects["parent", parent] = Action("delete")
            self.attempt(effects, lambda: self.done(self.http.ask("DELETE", f"/Parent/{parent}"), 204))


class GraphQL(Client):
    actions: ClassVar = {"put": 5, "patch": 4, "delete": 2, "find": 3, "two": 2}

    def query(self, text: str, **variables: Any) -> Any:
        answer = self.http.ask("POST", "/graphql", {"query": text, "variables": variables})
        return self.expect(answer, 200).json()["data"]

    def put(self) -> None:
        register, value = self.item_and_value()
        text = "mutation ($id: ID!, $input: ItemInput!) { put_Item(id: $id, input: $input) { id } }"
        self.attempt({register: Action("put", value)}, lambda: self.query(text, id=register[1], input=body_of(value)) and None)

    def two(self) -> None:
        """Two records in one transaction."""
        group = self.group()
        first, second = self.source.sample(self.items_in(group), 2)
        value, other = self.value(first), self.value(second)
        text = "mutation ($a: ID!, $x: ItemInput!, $b: ID!, $y: ItemInput!) { put_Item(id: $a, input: $x) { id } and: put_Item(id: $b, input: $y) { id } }"
        values = {"a": first[1], "x": body_of(value), "b": second[1], "y": body_of(other)}
        self.attempt({first: Action("put", value), second: Action("put", other)}, lambda: self.query(text, **values) and None)

    def patch(self) -> None:
        register, value = self.item_and_value()
        text = "mutation ($id: ID!, $input: ItemInput!) { patch_Item(id: $id, input: $input) { id } }"
        given = {"n": value.n, "group": value.group}
        value = value._replace(count=0)
        self.attempt({register: Action("patch", value)}, lambda: self.query(text, id=register[1], input=given) and None)

    def delete(self) -> None:
        register = self.item()
        text = "mutation ($id: ID!) { delete_Item(id: $id) }"
        self.attempt({register: Action("delete")}, lambda: {register: self.query(text, id=register[1])["delete_Item"]})

    def find(self) -> None:
        text = "query ($group: String!) { Item(group: $group) { id n count group } }"
        self.search(lambda group: self.query(text, group=group)["Item"])


class Sql(Client):
    actions: ClassVar = {"update": 4, "insert": 3, "delete": 2, "bump": 4, "find": 2, "sweep": 1, "update_list": 2}

    def run_sql(self, text: str) -> Any:
        return self.expect(self.http.operate("sql", sql=text), 200).json()

    def update(self) -> None:
        register, value = self.item_and_value()
        text = f"UPDATE data.Item SET n = {value.n}, `count` = {value.count}, `group` = '{value.group}' WHERE id = '{register[1]}'"
        self.attempt({register: Action("update", value)}, lambda: {register: bool(self.run_sql(text)["update_hashes"])})

    def bump(self) -> None:
        register, n = self.item(), self.recorder.number()
        text = f"UPDATE data.Item SET n = {n}, `count` = COALESCE(`count`, 0) + 1 WHERE id = '{register[1]}'"
        self.attempt({register: Action("bump", Record(n, 1))}, lambda: {register: bool(self.run_sql(text)["update_hashes"])})

    def update_list(self) -> None:
        """All of its records in one statement, that of a long one being a long write."""
        (name, _), n = self.named_list(), self.recorder.number()
        register = "list", name
        text = f"UPDATE data.Member SET n = {n} WHERE list = '{name}'"
        self.attempt({register: Action("update", Record(n))}, lambda: {register: bool(self.run_sql(text)["update_hashes"])})

    def insert(self) -> None:
        register, value = self.item_and_value()
        text = f"INSERT INTO data.Item (id, n, `count`, `group`) VALUES ('{register[1]}', {value.n}, {value.count}, '{value.group}')"
        self.attempt({register: Action("insert", value)}, lambda: {register: bool(self.run_sql(text)["inserted_hashes"])})

    def delete(self) -> None:
        register = self.item()
        text = f"DELETE FROM data.Item WHERE id = '{register[1]}'"
        self.attempt({register: Action("delete")}, lambda: {register: bool(self.run_sql(text)["deleted_hashes"])})

    def find(self) -> None:
        self.search(lambda group: self.run_sql(f"SELECT * FROM data.Item WHERE `group` = '{group}'"))

    def sweep(self) -> None:
        group = self.group()
        effects = {register: Action("sweep", Record(0, 0, group)) for register in self.items_in(group)}
        self.attempt(effects, lambda: self.run_sql(f"DELETE FROM data.Item WHERE `group` = '{group}'") and None)


class Operations(Client):
    """Also definitions: tables that come and go."""

    actions: ClassVar = {
        "insert": 4,
        "update": 4,
        "upsert": 4,
        "delete": 2,
        "find": 2,
        "load": 1,
        "create_table": 1,
        "describe_table": 3,
        "drop_table": 1,
    }

    def change(self, operation: str, action: str, done: str | None) -> None:
        several = self.several()
        records = [{"id": key, **body_of(value)} for (_, key), value in several]

        def send() -> Told | None:
            answer = self.expect(self.http.operate(operation, table="Item", records=records), 200).json()
            return None if done is None else {register: register[1] in answer[done] for register, _ in several}

        self.attempt({register: Action(action, value) for register, value in several}, send)

    def insert(self) -> None:
        self.change("insert", "insert", "inserted_hashes")

    def update(self) -> None:
        self.change("update", "update", "update_hashes")

    def upsert(self) -> None:
        self.change("upsert", "put", None)

    def delete(self) -> None:
        registers = [register for register, _ in self.several()]

        def send() -> Told:
            deleted = self.expect(self.http.operate("delete", table="Item", ids=[key for _, key in registers]), 200).json()[
                "deleted_hashes"
            ]
            return {register: register[1] in deleted for register in registers}

        self.attempt({register: Action("delete") for register in registers}, send)

    def find(self) -> None:
        def ask(group: str) -> Any:
            conditions = [{"attribute": "group", "comparator": "equals", "value": group}]
            return self.expect(
                self.http.operate("search_by_conditions", table="Item", conditions=conditions, get_attributes=["*"]), 200
            ).json()

        self.search(ask)

    def load(self) -> None:
        """As CSV, in a job: it is over when the job is."""
        several = self.several()
        rows = "".join(f"{key},{value.n},{value.count},{value.group}\n" for (_, key), value in several)

        def send() -> None:
            answer = self.http.operate("csv_data_load", table="Item", action="upsert", data=f"id,n,count,group\n{rows}")
            job = self.expect(answer, 200).json()["job_id"]
            if self.ended(job) != "COMPLETE":
                raise NoOutcome

        self.attempt({register: Action("put", value) for register, value in several}, send)

    def ended(self, job: str) -> str:
        """The status with which a job has ended."""

        def status() -> str | None:
            try:
                found = self.expect(self.http.operate("get_job", id=job), 200).json()
            except (NotDone, NoOutcome):
                return "LOST" if self.is_over.is_set() else None
            return found[0]["status"] if found[0]["status"] in ("COMPLETE", "ERROR", "CANCELED") else None

        return wait_until(status, f"{job} has not ended") or ""

    def table(self) -> Register:
        return "table", f"T{self.recorder.era}"

    def create_table(self) -> None:
        register = self.table()

        def send() -> Told:
            answer = self.http.operate("create_table", table=register[1], primary_key="id")
            return {register: self.expect(answer, 200, 400).status == 200}

        self.attempt({register: Action("insert", Record(1))}, send)

    def drop_table(self) -> None:
        register = self.table()
        self.attempt(
            {register: Action("delete")},
            lambda: {register: self.expect(self.http.operate("drop_table", table=register[1]), 200, 404).status == 200},
        )

    def describe_table(self) -> None:
        register = self.table()

        def send() -> Told:
            answer = self.expect(self.http.operate("describe_table", table=register[1]), 200, 404)
            return {register: Record(1) if answer.status == 200 else None}

        self.attempt({register: Action("get")}, send)


class Code(Client):
    """Code of an application: several records in one transaction, some of which fails at its end."""

    actions: ClassVar = {"work": 1}

    def work(self) -> None:
        first, *others = self.source.sample(self.items_in(self.group()), self.source.randint(1, 3))
        n = self.recorder.number()
        values = {register: self.value(register) for register in others}
        effects = {first: Action("add", Record(n, 1)), **{register: Action("put", value) for register, value in values.items()}}
        body: dict[str, Any] = {
            "put": {register[1]: body_of(value) for register, value in values.items()},
            "add": {first[1]: {"n": n, "count": 1}},
        }
        if self.source.random() < 0.3:
            name, size = f"e{self.recorder.era}-l0", LONG
            body["members"] = [{"id": f"{name}-{number}", "list": name, "n": n} for number in range(size)]
            effects["list", name] = Action("put", Record(n))
        fails = body["fail"] = self.source.random() < 0.2

        def send() -> None:
            self.expect(self.http.ask("POST", "/Work/", body), 400 if fails else 200)
            if fails:
                raise NotDone

        self.attempt(effects, send)


class Mqtt(Client):
    """Retained messages at QoS 1. A client that has lost its connection is another one then, so that it sends nothing again."""

    actions: ClassVar = {"put": 4, "delete": 1}

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.publisher: Publisher | None = None

    def close(self) -> None:
        super().close()
        if self.publisher is not None:
            self.publisher.close()

    def publish(self, key: str, payload: bytes) -> None:
        if self.publisher is not None and (self.publisher.is_lost or self.source.random() < 0.02):
            self.publisher.close()
            self.publisher = None
        if self.publisher is None:
            self.publisher = Publisher(self.port_of("mqtt"))
        reason = self.publisher.publish(f"Item/{key}", payload)
        if reason >= 0x80:
            if reason != 0x80:
                self.recorder.faults.append(f"{self.name}: reason 0x{reason:02x}")
            raise NoOutcome

    def put(self) -> None:
        register, value = self.item_and_value()
        self.attempt({register: Action("put", value)}, lambda: self.publish(register[1], json.dumps(body_of(value)).encode()))

    def delete(self) -> None:
        register = self.item()
        self.attempt({register: Action("delete")}, lambda: self.publish(register[1], b""))
