"""Topics and filters as addresses (spec: mqtt §3, §4): a topic is the path of a resource and a key, without percent-encoding."""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import quote

from svc.errors import ClientError
from svc.protocol.mqtt_topics import is_filter
from svc.resources import Resource, Resources
from svc.resources.registry import Registration
from svc.resources.target import RequestTarget, decode_path

PROTOCOL = "mqtt"
REMEMBERED = 4096  # topics
REMEMBERED_LENGTH = 256  # characters of them: longer ones are looked for each time
LEVELS = 64  # of a filter
WILDCARDS = 8  # "+" of a filter: beyond, one message could be compared with very many
_SAFE = "/:@!$&'()*+,;=~"  # as in registered addresses


@dataclass(frozen=True, slots=True)
class Address:
    """`text`: of the key, "" for the resource itself."""

    registration: Registration
    raw: str
    text: str

    @property
    def resource(self) -> type[Resource]:
        return self.registration.resource

    def target(self) -> RequestTarget:
        """Raises ClientError for a text that is no key of the resource."""
        target = RequestTarget()
        if self.text:
            target.id_text, target.raw = self.text, self.raw
        else:
            target.is_root = True
        if self.registration.pattern is not None:
            self.resource.set_parameters(target, self.registration.parameters(f"/{self.registration.path}/{self.raw}"))
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

    `pattern`: any other combination, as levels of keys; then the rest says nothing.
    """

    registration: Registration
    raw: str
    text: str
    is_deep: bool
    has_children: bool
    pattern: tuple[str, ...] | None = None

    @property
    def resource(self) -> type[Resource]:
        return self.registration.resource

    @property
    def is_root(self) -> bool:
        """Whether it is the topic of the resource itself."""
        return not (self.text or self.is_deep or self.has_children or self.pattern)


class Addresses:
    """Finds them in a registry. What was found is remembered while the registry stays as it is."""

    def __init__(self, resources: Resources) -> None:
        self._resources = resources
        self._version = resources.version
        self._known: dict[str, Address | None] = {}

    def find(self, topic: str) -> Address | None:
        """None: there is no such topic."""
        if self._version != self._resources.version or len(self._known) >= REMEMBERED:
            self._version = self._resources.version
            self._known.clear()
        try:
            return self._known[topic]
        except KeyError:
            found = self._find(topic)
            if len(topic) <= REMEMBERED_LENGTH:
                self._known[topic] = found
            return found

    def _find(self, topic: str) -> Address | None:
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
        return Address(registration, raw, decode_path(raw))

    def find_filter(self, text: str) -> Filter | None:
        """None: it is not well-formed, or nothing that it could cover exists: wildcards stand behind the address of a resource."""
        if not is_filter(text):
            return None
        levels = text.split("/")
        end = next((number for number, level in enumerate(levels) if level in ("+", "#")), len(levels))
        address = self.find("/".join(levels[:end]))
        if address is None:
            return None
        wild = tuple(levels[end:])
        if wild in ((), ("#",), ("+",)):
            return Filter(address.registration, address.raw, address.text, wild == ("#",), wild == ("+",))
        pattern = (*(address.text.split("/") if address.text else ()), *wild)
        if len(pattern) > LEVELS or pattern.count("+") > WILDCARDS:
            return None
        return Filter(address.registration, "", "", False, False, pattern)

    @staticmethod
    def key_of(found: Filter) -> object:
        """The key that a filter names, None without one. Raises ClientError."""
        if not found.text:
            return None
        target = RequestTarget()
        target.id_text, target.raw = found.text, found.raw
        found.resource.bind(target)
        if target.id is None:
            raise ClientError(f"'{found.text[:100]}' is no key")
        key: object = target.id
        return key


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
    return f"{path}/{text}"
