"""Names of topics and filters (MQTT 5 §4.7, §4.8.2): what is well-formed, and which topics a filter covers."""

from __future__ import annotations

from typing import Final

SHARE: Final = "$share/"


def has_wildcard(topic: str) -> bool:
    return "+" in topic or "#" in topic


def is_filter(text: str) -> bool:
    """Whether `text` is a filter, without a share: wildcards are whole levels, and `#` is the last one.

    >>> [is_filter(each) for each in ("a/+/b", "#", "a/#", "/", "a+", "a/#/b", "a#", "")]
    [True, True, True, True, False, False, False, False]
    """
    if not text or "\0" in text:
        return False
    if "+" not in text and "#" not in text:
        return True
    levels = text.split("/")
    return all(level in ("+", "#") or not has_wildcard(level) for level in levels) and "#" not in levels[:-1]


def split_share(text: str) -> tuple[str, str] | None:
    """(name of the group, filter) of `$share/group/filter`; None: it is a share that is not well-formed. Of any other filter the group is "".

    >>> split_share("$share/g/a/b"), split_share("a/b"), split_share("$share/g"), split_share("$share/a+/b"), split_share("$share//b")
    (('g', 'a/b'), ('', 'a/b'), None, None, None)
    """
    if not text.startswith(SHARE):
        return "", text
    group, slash, rest = text[len(SHARE) :].partition("/")
    return (group, rest) if slash and rest and group and not has_wildcard(group) else None


def covers(levels: tuple[str, ...], topic: tuple[str, ...]) -> bool:
    """Whether the filter with these levels covers the topic. Wildcards in the first level do not cover topics that begin with `$` (MQTT-4.7.2-1).

    >>> covers(("a", "#"), ("a",)), covers(("a", "+"), ("a",)), covers(("+", "b"), ("a", "b")), covers(("#",), ("$SYS", "x"))
    (True, False, True, False)
    """
    if topic[0].startswith("$") and levels[0] in ("+", "#"):
        return False
    if levels[-1] == "#":
        levels = levels[:-1]
        topic = topic[: len(levels)]
    return len(levels) == len(topic) and all(level in ("+", part) for level, part in zip(levels, topic, strict=True))
