"""What clients ask: requests over all interfaces, drawn from the seed, each with what it does to the table and how its answer is read."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from fuzz.simulation.model import Operation, State, Violation, record_of, replaced
from svc.protocol.mqtt import encode
from svc.protocol.mqtt_packets import V5, Publish

KEYS = "abcdef"
GROUPS = 3
AUTHORIZATION = "Basic YWRtaW46"  # of `admin:`
Port = Literal["application", "operations"]
Record = tuple[int, int, int]  # number, group, stock
Tags = dict[tuple[int, str], Record]
"""Place of the key, ETag -> what it had."""

UNKNOWN: Any = object()
"""The outcome of a write that may have been done, or not."""
OTHER = frozenset((503, 504, 408, 429))
"""Statuses after which that is so."""


@dataclass(slots=True)
class Request:
    """`read(status, fields, content)`: the outcome, or UNKNOWN; raises Violation and ValueError."""

    operation: Operation
    method: str
    target: str
    read: Callable[[int, Mapping[str, str], bytes], Any]
    fields: dict[str, str] = field(default_factory=dict)
    content: bytes | None = None
    port: Port = "application"

    def encode(self) -> bytes:
        lines = [f"{self.method} {self.target} HTTP/1.1", "Host: localhost", f"Authorization: {AUTHORIZATION}"]
        lines += [f"{name}: {value}" for name, value in self.fields.items()]
        if self.content is not None:
            lines += ["Content-Type: application/json", f"Content-Length: {len(self.content)}"]
        return ("\r\n".join(lines) + "\r\n\r\n").encode() + (self.content or b"")


def text_of(number: int) -> str:
    """Of the record with this number: most are short, some fill the buffers of connections."""
    return f"{number} " * (20_000 if number % 29 == 0 else number % 5)


def value_of(key: str, record: Record) -> dict[str, Any]:
    return {"id": key, "number": record[0], "group": record[1], "stock": record[2], "text": text_of(record[0])}


def state_of(rows: Mapping[str, Any]) -> State:
    """Rows by their ids, as the model has them. Raises Violation."""
    if strange := rows.keys() - set(KEYS):
        raise Violation(f"records that nobody has written: {sorted(strange)}")
    return tuple(found_record(rows[key]) if key in rows else None for key in KEYS)


def found_record(value: Mapping[str, Any]) -> Record:
    """Raises Violation."""
    return record_of(value, text_of(value["number"]))


def in_group(state: State, group: int | None) -> list[tuple[str, Record]]:
    return [(KEYS[at], each) for at, each in enumerate(state) if each is not None and (group is None or each[1] == group)]


def changed(state: State, records: Mapping[str, Record | None]) -> State:
    for key, record in records.items():
        state = replaced(state, KEYS.index(key), record)
    return state


class Asker:
    """Draws requests. `draw`: of the step."""

    def __init__(self) -> None:
        self.draw = random.Random()
        self.tags: Tags = {}
        self._number = 0
        kinds: list[tuple[float, Callable[[], Request]]] = [
            (6, self._put),
            (2, self._put_if),
            (1, self._delete_if),
            (2, self._put_new),
            (3, self._delete),
            (3, self._patch),
            (4, self._get),
            (4, self._query),
            (2, self._count),
            (2, self._put_list),
            (2, self._post_list),
            (3, self._delete_group),
            (2, self._sql_update),
            (2, self._sql_select),
            (1, self._sql_count),
            (1, self._sql_insert),
            (2, self._sql_delete),
            (2, self._graphql_query),
            (1, self._graphql_patch),
            (2, self._graphql_both),
            (1, self._upsert),
            (1, self._insert),
            (1, self._update),
            (1, self._search),
            (2, self._pair),
        ]
        self._weights = [weight for weight, _ in kinds]
        self._kinds = [kind for _, kind in kinds]

    def ask(self) -> Request:
        (kind,) = self.draw.choices(self._kinds, self._weights)
        return kind()

    def publish(self, packet_id: int) -> tuple[Operation, bytes]:
        """A retained message at QoS 1, which is a PUT or a DELETE."""
        key = self._key()
        record = None if self.draw.random() < 0.3 else self._record()
        payload = b"" if record is None else json.dumps(value_of(key, record)).encode()
        operation = self._operation(f"PUBLISH {key} {record}", lambda state: (changed(state, {key: record}), "done"))
        return operation, encode(Publish(f"Item/{key}", payload, 1, True, False, packet_id), V5)

    # --- parts ---------------------------------------------------------------------------------------------------------------------------

    def _key(self) -> str:
        return self.draw.choice(KEYS)

    def _group(self) -> int:
        return self.draw.randrange(GROUPS)

    def _record(self) -> Record:
        self._number += 1
        return self._number, self._group(), 0

    def _records(self) -> dict[str, Record]:
        return {key: self._record() for key in self.draw.sample(KEYS, self.draw.randint(2, 4))}

    def _operation(self, shown: str, apply: Callable[[State], tuple[State, Any]], *, writes: bool = True) -> Operation:
        self._number += 1
        return Operation(self._number, shown, apply, writes)

    def _write(
        self,
        method: str,
        target: str,
        apply: Callable[[State], tuple[State, Any]],
        outcomes: Mapping[int, Any],
        body: Any = None,
        fields: dict[str, str] | None = None,
    ) -> Request:
        """`outcomes`: by status."""
        shown = " ".join([method, target, *(f"{name}: {value}" for name, value in (fields or {}).items()), _short(body)])
        read = _by_status(outcomes)
        content = None if body is None else json.dumps(body).encode()
        return Request(self._operation(shown, apply), method, target, read, fields or {}, content)

    # --- REST ----------------------------------------------------------------------------------------------------------------------------

    def _put(self) -> Request:
        key, record = self._key(), self._record()
        return self._write(
            "PUT", f"/Item/{key}", lambda state: (changed(state, {key: record}), "done"), {204: "done"}, value_of(key, record)
        )

    def _delete(self) -> Request:
        key = self._key()
        return self._write("DELETE", f"/Item/{key}", lambda state: (changed(state, {key: None}), "done"), {204: "done"})

    def _put_if(self) -> Request:
        return self._if_match(self._record()) or self._put()

    def _delete_if(self) -> Request:
        return self._if_match(None) or self._delete()

    def _if_match(self, record: Record | None) -> Request | None:
        if not self.tags:
            return None
        place, tag = self.draw.choice(list(self.tags)[-6:])
        expected, key = self.tags[place, tag], KEYS[place]

        def apply(state: State) -> tuple[State, Any]:
            return (replaced(state, place, record), "done") if state[place] == expected else (state, "refused")

        body = None if record is None else value_of(key, record)
        method = "DELETE" if record is None else "PUT"
        return self._write(method, f"/Item/{key}", apply, {204: "done", 412: "refused"}, body, {"If-Match": tag})

    def _put_new(self) -> Request:
        key, record = self._key(), self._record()

        def apply(state: State) -> tuple[State, Any]:
            return (changed(state, {key: record}), "done") if state[KEYS.index(key)] is None else (state, "refused")

        return self._write("PUT", f"/Item/{key}", apply, {204: "done", 412: "refused"}, value_of(key, record), {"If-None-Match": "*"})

    def _patch(self) -> Request:
        key = self._key()
        body = {"stock": {"__op__": "add", "value": 1}}
        return self._write("PATCH", f"/Item/{key}", _counted(key), {204: "done", 412: "refused"}, body, {"If-Match": "*"})

    def _get(self) -> Request:
        key = self._key()
        place = KEYS.index(key)

        def read(status: int, fields: Mapping[str, str], content: bytes) -> Any:
            if status in OTHER:
                return UNKNOWN
            if status == 404:
                return None
            _require(status, content)
            found = found_record(json.loads(content))
            before = self.tags.setdefault((place, fields["etag"]), found)
            if before != found:
                raise Violation(f"{fields['etag']} is the tag of {before} and of {found}")
            return found

        operation = self._operation(f"GET {key}", lambda state: (state, state[place]), writes=False)
        return Request(operation, "GET", f"/Item/{key}", read)

    def _query(self) -> Request:
        group = self.draw.choice((None, *range(GROUPS)))
        order = self.draw.choice((None, "number", "-number"))
        sign = -1 if order == "-number" else 1
        calls = [each for each in (None if group is None else f"group=={group}", order and f"sort({order})") if each]

        def apply(state: State) -> tuple[State, Any]:
            found = in_group(state, group)
            return state, tuple(sorted(found, key=lambda each: sign * each[1][0]) if order else found)

        target = f"/Item/?{'&'.join(calls)}" if calls else "/Item/"
        return Request(self._operation(f"GET {target}", apply, writes=False), "GET", target, _reading(_pairs))

    def _count(self) -> Request:
        group = self._group()
        target = f"/Item/?group=={group}&count()"
        operation = self._operation(f"GET {target}", lambda state: (state, len(in_group(state, group))), writes=False)
        return Request(operation, "GET", target, _reading(lambda body: body["count"]))

    def _put_list(self) -> Request:
        records = self._records()
        return self._write("PUT", "/Item/", lambda state: (changed(state, records), "done"), {204: "done"}, _values(records))

    def _post_list(self) -> Request:
        records = self._records()
        return self._write("POST", "/Item/", _all_new(records), {201: "done", 409: "refused"}, _values(records))

    def _pair(self) -> Request:
        """By code of the application, over several turns."""
        records = self._records()
        return self._write("POST", "/Pair/", lambda state: (changed(state, records), "done"), {200: "done"}, _values(records))

    def _delete_group(self) -> Request:
        """What it has found and is still in the group when it is written, is removed (schema-and-store §8.9, §8.10)."""
        group = self._group()

        def find(state: State) -> frozenset[str]:
            return frozenset(key for key, _ in in_group(state, group))

        def apply(state: State, found: frozenset[str]) -> tuple[State, Any]:
            gone = find(state) & found
            return changed(state, dict.fromkeys(gone)), len(gone)

        def read(status: int, fields: Mapping[str, str], content: bytes) -> Any:
            return _unless_other(status, content, 204) or int(fields["x-deleted-count"])

        target = f"/Item/?group=={group}"
        self._number += 1
        return Request(Operation(self._number, f"DELETE {target}", apply, find=find), "DELETE", target, read)

    # --- SQL -----------------------------------------------------------------------------------------------------------------------------

    def _sql(self, text: str, parameters: list[Any], apply: Any, read: Callable[[Any], Any], *, writes: bool = True) -> Request:
        content = json.dumps({"sql": text, "parameters": parameters}).encode()
        operation = self._operation(f"{text} {_short(parameters)}", apply, writes=writes)
        return Request(operation, "POST", "/sql", _reading(read), content=content)

    def _sql_update(self) -> Request:
        group = self._group()

        def apply(state: State) -> tuple[State, Any]:
            found = in_group(state, group)
            return changed(state, {key: (*record[:2], record[2] + 1) for key, record in found}), _keys(key for key, _ in found)

        text = 'UPDATE data.Item SET stock = stock + 1 WHERE "group" = ?'
        return self._sql(text, [group], apply, lambda body: _keys(body["update_hashes"]))

    def _sql_select(self) -> Request:
        group = self._group()
        text = 'SELECT id, number, "group", stock, text FROM data.Item WHERE "group" = ? ORDER BY id'
        return self._sql(text, [group], lambda state: (state, tuple(in_group(state, group))), _pairs, writes=False)

    def _sql_count(self) -> Request:
        def apply(state: State) -> tuple[State, Any]:
            found = [each for each in state if each is not None]
            return state, (len(found), sum(each[2] for each in found))

        text = "SELECT COUNT(*) AS n, COALESCE(SUM(stock), 0) AS s FROM data.Item"
        return self._sql(text, [], apply, lambda rows: (rows[0]["n"], rows[0]["s"]), writes=False)

    def _sql_insert(self) -> Request:
        records = self._records()
        rows = ", ".join("(?, ?, ?, ?, ?)" for _ in records)
        parameters = [each for value in _values(records) for each in value.values()]
        text = f'INSERT INTO data.Item (id, number, "group", stock, text) VALUES {rows}'
        return self._sql(text, parameters, _new_ones(records), lambda body: _keys(body["inserted_hashes"]))

    def _sql_delete(self) -> Request:
        group = self._group()
        text = 'DELETE FROM data.Item WHERE "group" = ?'
        return self._sql(text, [group], _without(group), lambda body: len(body["deleted_hashes"]))

    # --- GraphQL -------------------------------------------------------------------------------------------------------------------------

    def _graphql(self, text: str, variables: dict[str, Any], apply: Any, read: Any, *, writes: bool = True) -> Request:
        content = json.dumps({"query": text, "variables": variables}).encode()
        return Request(self._operation(f"{text} {_short(variables)}", apply, writes=writes), "POST", "/graphql", read, content=content)

    def _graphql_query(self) -> Request:
        group = self._group()
        text = f"{{ Item(group: {group}) {{ id number group stock text }} }}"
        read = _reading(lambda body: _pairs(body["data"]["Item"]))
        return self._graphql(text, {}, lambda state: (state, tuple(in_group(state, group))), read, writes=False)

    def _graphql_patch(self) -> Request:
        """To what the record has never been: two versions of a record that are equal have two ETags, but are one to the model."""
        key, stock = self._key(), self._record()[0] * 1000

        def apply(state: State) -> tuple[State, Any]:
            before = state[KEYS.index(key)]
            if before is None:
                return state, "refused"
            return changed(state, {key: (*before[:2], stock)}), "done"

        text = f'mutation {{ patch_Item(id: "{key}", input: {{stock: {stock}}}, ifMatch: "*") {{ id }} }}'
        return self._graphql(text, {}, apply, _by_status({200: "done", 412: "refused"}))

    def _graphql_both(self) -> Request:
        """Two fields, both or neither."""
        gone, new = self.draw.sample(KEYS, 2)
        record = self._record()
        value = value_of(new, record)

        def apply(state: State) -> tuple[State, Any]:
            return (changed(state, {gone: None, new: record}), "done") if state[KEYS.index(new)] is None else (state, "refused")

        text = f'mutation M($text: String) {{ delete_Item(id: "{gone}") create_Item(input: {{id: "{new}", number: {record[0]}, '
        text += f"group: {record[1]}, stock: 0, text: $text}}) {{ id }} }}"
        return self._graphql(text, {"text": value["text"]}, apply, _by_status({200: "done", 409: "refused"}))

    # --- operations ----------------------------------------------------------------------------------------------------------------------

    def _operate(self, body: dict[str, Any], apply: Any, read: Callable[[Any], Any], *, writes: bool = True) -> Request:
        operation = self._operation(_short(body), apply, writes=writes)
        content = json.dumps({"database": "data", "table": "Item", **body}).encode()
        return Request(operation, "POST", "/", _reading(read), content=content, port="operations")

    def _upsert(self) -> Request:
        records = self._records()
        body = {"operation": "upsert", "records": _values(records)}
        return self._operate(body, lambda state: (changed(state, records), _keys(records)), lambda told: _keys(told["upserted_hashes"]))

    def _insert(self) -> Request:
        records = self._records()
        body = {"operation": "insert", "records": _values(records)}
        return self._operate(body, _new_ones(records), lambda told: _keys(told["inserted_hashes"]))

    def _update(self) -> Request:
        records = self._records()

        def apply(state: State) -> tuple[State, Any]:
            known = {key: record for key, record in records.items() if state[KEYS.index(key)] is not None}
            return changed(state, known), _keys(known)

        body = {"operation": "update", "records": _values(records)}
        return self._operate(body, apply, lambda told: _keys(told["update_hashes"]))

    def _search(self) -> Request:
        group = self._group()
        body = {"operation": "search_by_value", "attribute": "group", "value": group, "get_attributes": ["*"]}
        apply = lambda state: (state, tuple(in_group(state, group)))  # noqa: E731
        return self._operate(body, apply, lambda rows: tuple(sorted(_pairs(rows))), writes=False)


def _short(value: Any) -> str:
    """Without texts."""
    if value is None:
        return ""
    return " ".join(json.dumps(value).split(" "))[:160]


def _values(records: Mapping[str, Record]) -> list[dict[str, Any]]:
    return [value_of(key, record) for key, record in records.items()]


def _pairs(rows: list[Any]) -> Any:
    return tuple((each["id"], found_record(each)) for each in rows)


def _keys(keys: Iterable[str]) -> tuple[str, ...]:
    return tuple(sorted(keys))


def _require(status: int, content: bytes) -> Any:
    """The body. Raises Violation."""
    if status not in (200, 201, 204):
        raise Violation(f"status {status}: {content[:300]!r}")
    return json.loads(content) if content else None


def _unless_other(status: int, content: bytes, expected: int) -> Any:
    if status in OTHER:
        return UNKNOWN
    if status != expected:
        raise Violation(f"status {status}: {content[:300]!r}")
    return None


def _by_status(outcomes: Mapping[int, Any]) -> Callable[[int, Mapping[str, str], bytes], Any]:
    def read(status: int, fields: Mapping[str, str], content: bytes) -> Any:
        if status in outcomes:
            return outcomes[status]
        return _unless_other(status, content, 0)

    return read


def _reading(read: Callable[[Any], Any]) -> Callable[[int, Mapping[str, str], bytes], Any]:
    return lambda status, fields, content: UNKNOWN if status in OTHER else read(_require(status, content))


def _counted(key: str) -> Callable[[State], tuple[State, Any]]:
    def apply(state: State) -> tuple[State, Any]:
        before = state[KEYS.index(key)]
        return (state, "refused") if before is None else (changed(state, {key: (*before[:2], before[2] + 1)}), "done")

    return apply


def _without(group: int) -> Callable[[State], tuple[State, Any]]:
    def apply(state: State) -> tuple[State, Any]:
        found = in_group(state, group)
        return changed(state, dict.fromkeys((key for key, _ in found), None)), len(found)

    return apply


def _new_ones(records: Mapping[str, Record]) -> Callable[[State], tuple[State, Any]]:
    """Those whose keys are there are passed over."""

    def apply(state: State) -> tuple[State, Any]:
        new = {key: record for key, record in records.items() if state[KEYS.index(key)] is None}
        return changed(state, new), _keys(new)

    return apply


def _all_new(records: Mapping[str, Record]) -> Callable[[State], tuple[State, Any]]:
    def apply(state: State) -> tuple[State, Any]:
        if any(state[KEYS.index(key)] is not None for key in records):
            return state, "refused"
        return changed(state, records), "done"

    return apply
