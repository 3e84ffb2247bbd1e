"""Topics and filters as addresses (spec: mqtt §3, §4): a topic is the path of a resource and a key, without percent-encoding.

Where there is a table of free topics, what begins with no resource is a record of that, whose key is the whole topic (spec: mqtt §9).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from svc.errors import ClientError
from svc.mqtt.free_topics import ADDRESS, FreeTopics, content_of, is_free_topic
from svc.protocol.mqtt_topics import is_filter
from svc.resources import Resource, Resources
from svc.resources.registry import Registration
from svc.resources.target import RequestTarget, decode_path
from svc.store.values.keys import MAX_KEY_CHARACTERS

PROTOCOL = "mqtt"
REMEMBERED = 4096  # topics
REMEMBERED_LENGTH = 256  # characters of them: longer ones are looked for each time
LEVELS = 64  # of a filter
LONGEST = 2048  # characters of a filter: its session keeps it
WILDCARDS = 8  # "+" of a filter: beyond, one message could be compared with very many
_SAFE = "/:@!$&'()*+,;=~"  # as in registered addresses


@dataclass(frozen=True, slots=True)
class Address:
    """`text`: of the key, "" for the resource itself. `place`: the path of a resource whose address has parameters, with their values."""

    registration: Registration
    raw: str
    text: str
    place: str = ""

    @property
    def resource(self) -> type[Resource]:
        return self.registration.resource

    @property
    def is_free(self) -> bool:
        """Whether the topic is no resource's: `text` is all of it."""
        return self.registration.path == ADDRESS

    def target(self) -> RequestTarget:
        """Raises ClientError for a text that is no key of the resource."""
        target = RequestTarget()
        if self.is_free:
            target.id_text = target.id = self.text
            return target
        if self.text:
            target.id_text, target.raw = self.text, self.raw
        else:
            target.is_root = True
        set_parameters(target, self.registration, self.place, self.raw)
        if target.id_text is not None:
            self.resource.bind(target)
        return target


@dataclass(frozen=True, slots=True)
class Filter:
    """What a filter covers of a resource. `text`: of the key in front of the wildcards, "" without one.

    deep            children          covers
    no              no                the key, or the messages to the resource itself
    yes             no                the key, and all below; without a key everything of the resource
    no              yes               what is one level below the key, or the keys of one level

    `pattern`: any other combination, as levels of keys; then the rest says nothing. `addresses`: of a filter of free topics, what knows which these are.
    `place`: as of `Address`.
    """

    registration: Registration
    raw: str
    text: str
    is_deep: bool
    has_children: bool
    pattern: tuple[str, ...] | None = None
    addresses: Addresses | None = None
    place: str = ""

    @property
    def path(self) -> str:
        """What topics of the resource begin with."""
        return self.place or self.registration.path

    def set_parameters(self, target: RequestTarget) -> None:
        set_parameters(target, self.registration, self.place, self.raw)

    @property
    def resource(self) -> type[Resource]:
        return self.registration.resource

    @property
    def is_free(self) -> bool:
        return self.addresses is not None

    def topic_of(self, event: Any) -> str | None:
        """The topic that an event is told under; None: it is not told."""
        if self.addresses is not None:
            return self.addresses.free_topic_of(event)
        return topic_of(self.path, event.id)

    @property
    def is_root(self) -> bool:
        """Whether it is the topic of the resource itself."""
        return not (self.text or self.is_deep or self.has_children or self.pattern)


class Addresses:
    """Finds them in a registry. What was found is remembered while the registry stays as it is. `free`: the table of free topics, if there is one."""

    def __init__(self, resources: Resources) -> None:
        self.free: FreeTopics | None = None
        self._resources = resources
        self._version = resources.version
        self._free: Registration | None = None  # of the table, as of what is remembered
        self._known: dict[str, Address | None] = {}

    def find(self, topic: str) -> Address | None:
        """None: there is no such topic."""
        free = None if self.free is None else self.free.registration
        if self._version != self._resources.version or free is not self._free or len(self._known) >= REMEMBERED:
            self._version = self._resources.version
            self._free = free
            self._known.clear()
        try:
            return self._known[topic]
        except KeyError:
            found = self._find(topic)
            if len(topic) <= REMEMBERED_LENGTH:
                self._known[topic] = found
            return found

    def _find(self, topic: str) -> Address | None:
        found = self._find_in_resource(topic)
        if found is None and self._free is not None and is_free_topic(topic) and not self._is_of_resource(topic):
            return Address(self._free, "", topic)
        return found

    def _find_in_resource(self, topic: str) -> Address | None:
        if not topic or "//" in topic or topic[0] in "/$" or topic[-1] == "/" or "?" in topic:
            return None
        try:
            found = self._resources.find("/" + quote(topic, safe=_SAFE), PROTOCOL, False)
        except UnicodeEncodeError:
            return None
        if found is None or found[0].fault:
            return None
        registration, relative = found
        raw = relative[1:]
        place = "" if registration.pattern is None else topic[: len(topic) - len(decode_path(relative))]
        return Address(registration, raw, decode_path(raw), place)

    def _is_of_resource(self, topic: str) -> bool:
        """Whether a topic, or what filters have in front of wildcards, begins with a resource: also one that is hidden, or does not work."""
        found = self._resources.find("/" + quote(topic, safe=_SAFE), None, False)
        return found is not None and (found[0].path != "" or found[0].visible(PROTOCOL))

    def free_topic_of(self, event: Any) -> str | None:
        """The topic of a record in the table of free topics, or of a message there. None: it is not told, because the key is no free topic, or because
        the record has no data, which would say that it was deleted."""
        memo = event.memo
        found = memo.get("mqtt.free", False)
        if found is False:
            key = event.id
            is_told = type(key) is str and is_free_topic(key) and not self._is_of_resource(key)
            if is_told and event.type == "put":
                is_told = content_of(event.members(True)["value"]) is not None
            found = memo["mqtt.free"] = key if is_told else None
        return found  # type: ignore[no-any-return]

    def find_filter(self, text: str) -> Filter | None:
        """None: it is not well-formed, or nothing that it could cover exists: wildcards stand behind the address of a resource."""
        if len(text) > LONGEST or not is_filter(text):
            return None
        levels = text.split("/")
        end = next((number for number, level in enumerate(levels) if level in ("+", "#")), len(levels))
        before = "/".join(levels[:end])
        address = self.find(before)
        if address is None or address.is_free:
            return self._find_free_filter(text, levels, end, before)
        wild = tuple(levels[end:])
        if wild in ((), ("#",), ("+",)):
            return Filter(address.registration, address.raw, address.text, wild == ("#",), wild == ("+",), place=address.place)
        pattern = (*(address.text.split("/") if address.text else ()), *wild)
        if len(pattern) > LEVELS or pattern.count("+") > WILDCARDS:
            return None
        return Filter(address.registration, "", "", False, False, pattern, place=address.place)

    def _find_free_filter(self, text: str, levels: list[str], end: int, before: str) -> Filter | None:
        """The same among free topics. `before`: what stands in front of the wildcards, which begin with level number `end`."""
        free = self._free
        least = len(text) - text.count("+") - len("/#")  # characters that a topic has at least, for it to be covered
        if free is None or text[0] == "$" or least > MAX_KEY_CHARACTERS or (end and self._is_of_resource(before)):
            return None
        wild = tuple(levels[end:])
        if wild in ((), ("#",)) and (before or not end):  # not "/#", which is below no topic
            return Filter(free, "", before, bool(wild), False, addresses=self) if not before or is_free_topic(before) else None
        if len(levels) > LEVELS or levels.count("+") > WILDCARDS:
            return None
        return Filter(free, "", "", False, False, tuple(levels), self)

    @staticmethod
    def key_of(found: Filter) -> object:
        """The key that a filter names, None without one. Raises ClientError."""
        if not found.text:
            return None
        if found.is_free:
            return found.text
        target = RequestTarget()
        target.id_text, target.raw = found.text, found.raw
        found.resource.bind(target)
        if target.id is None:
            raise ClientError(f"'{found.text[:100]}' is no key")
        key: object = target.id
        return key


def set_parameters(target: RequestTarget, registration: Registration, place: str, raw: str) -> None:
    """Keep the values of the parameters of an address. `place`: as of `Address`; `raw`: what follows it."""
    if registration.pattern is not None:
        registration.resource.set_parameters(target, registration.parameters(f"/{quote(place, safe=_SAFE)}/{raw}"))


def topic_of(path: str, key: object) -> str | None:
    """The topic of a record; None: its key cannot be in a topic, because it would be read as another one, or as a filter.

    >>> topic_of("Product", "a/b"), topic_of("Product", ("a", 5)), topic_of("Product", None), topic_of("Product", "a+")
    ('Product/a/b', 'Product/a/5', 'Product', None)
    """
    if key is None:
        return path
    if type(key) is str:
        text = key
    elif type(key) is int:
        text = str(key)
    elif isinstance(key, tuple | list) and all(type(part) in (str, int) for part in key):
        text = "/".join(map(str, key))
    else:
        return None
    if not text or "+" in text or "#" in text or "\0" in text or "?" in text or text[0] == "/" or text[-1] == "/" or "//" in text:
        return None
    return f"{path}/{text}" if path else text
