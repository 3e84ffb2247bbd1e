"""What a transaction keeps of the message of MQTT that it carries out."""

from __future__ import annotations

from typing import Protocol


class NamedDatabase(Protocol):
    @property
    def name(self) -> str: ...


class MqttMessage:
    """`note`: for its entries in the log (`mqtt.notes`). `row`: a key of `$mqtt`, None: there is nothing to note. `database`: where the row was written; of
    several databases it is the one that is committed last."""

    __slots__ = ("database", "note", "row")

    def __init__(self, note: bytes, row: bytes | None = None) -> None:
        self.note = note
        self.row = row
        self.database: NamedDatabase | None = None
