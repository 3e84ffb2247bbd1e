"""Which answers are compressed, and how (spec: http §8; RFC 9110 §12.5.3).

The client's quality decides between the codings; of equal ones br goes before zstd and zstd before gzip. zstd is offered only to clients that name it,
for older clients send `*` too. A body is left as it is when it is short, is of a type that is already compressed, when its
handler has set a coding or forbids one (`Cache-Control: no-transform`), and when it would not become shorter.

The length of a compressed body can reveal a secret in it if an attacker chooses another part of the same body (BREACH). Our own bodies hold no secrets besides
the records that the caller asked for (credentials and sessions travel in header fields), and do not repeat the request; a cross-origin page has no
session here (spec: http §11.3). A resource that does put a token and a part of the request into one body answers with `no-transform`.
"""

from __future__ import annotations

import re
import sys
from dataclasses import dataclass
from typing import Final

from svc.errors import NotAcceptable
from svc.http.conditional import coded_tag
from svc.http.encoders import BR, GZIP, ZSTD, AsyncCompressedBody, Coding, CompressedBody
from svc.messages import Feed, HeaderBlock, HeaderPairs, Request, Response

VARY: Final[tuple[str, str]] = ("Vary", "Accept, Accept-Encoding, Authorization, Cookie")
"""Of answers that depend on who asks: no cache gives one caller what another was given, whether it may keep it or not."""
MAX_AT_ONCE = 256 * 1024  # bytes of a body compressed in one go: 2.6 ms with gzip; longer ones become streams
MEMO_SIZE = 256  # different `Accept-Encoding` values and content types that are remembered ...
MEMO_TEXT = 200  # ... if they are not longer than this
OFFERED: Final = (BR, ZSTD, GZIP)  # best first

_QUALITY = re.compile(r"0(\.[0-9]{0,3})?|1(\.0{0,3})?")
_ALIASES = {"x-gzip": "gzip"}  # RFC 9110 §8.4.1.3
_NO_BODY = frozenset({204, 206, 304})  # and 206, whose ranges count the bytes of the identity coding (spec: http §7.4)


@dataclass(frozen=True, slots=True)
class Choice:
    """The result of one `Accept-Encoding`. `coding`: the best we can write, None = identity; `identity`: a body may also go without a coding; `accepted`: all
    that the client takes rather than identity, best first."""

    coding: Coding | None
    identity: bool
    accepted: tuple[Coding, ...] = ()


def parse_accept_encoding(text: str) -> dict[str, float]:
    """Coding in lower case -> quality, 0 = not acceptable. Of a repeated one the last counts; an unreadable quality counts as 1."""
    qualities: dict[str, float] = {}
    for part in text.split(","):
        name, *parameters = part.split(";")
        coding = name.strip().lower()
        if not coding:
            continue
        quality = 1.0
        for parameter in parameters:
            key, _, value = parameter.partition("=")
            value = value.strip()
            if key.strip().lower() == "q" and _QUALITY.fullmatch(value):
                quality = float(value)
        qualities[_ALIASES.get(coding, coding)] = quality
    return qualities


def choose_coding(text: str | None) -> Choice:
    """The best coding for a client. Without the field identity, the only one that every client understands."""
    if text is None:
        return NO_CODING
    qualities = parse_accept_encoding(text)
    others = qualities.get("*")
    found = {coding: qualities.get(coding.name, 0.0 if others is None or coding is ZSTD else others) for coding in OFFERED}
    identity = qualities.get("identity")
    least = identity or 0.0
    accepted = tuple(
        sorted((coding for coding in OFFERED if found[coding] > 0.0 and found[coding] >= least), key=lambda coding: -found[coding])
    )
    return Choice(accepted[0] if accepted else None, others != 0.0 if identity is None else identity > 0.0, accepted)


NO_CODING: Final = Choice(None, True)
_choices: dict[str | None, Choice] = {}


def choice_of(block: HeaderBlock) -> Choice:
    """The choice for a header block, computed once."""
    choice: Choice | None = block.memo.get("coding")
    if choice is None:
        text = block.fields.get("accept-encoding")
        choice = _choices.get(text)
        if choice is None:
            choice = choose_coding(text)
            if len(_choices) >= MEMO_SIZE:
                _choices.clear()
            if text is None or len(text) <= MEMO_TEXT:
                _choices[text] = choice
        block.memo["coding"] = choice
    return choice


_COMPRESSED_TYPES = re.compile(
    r"""image/(?!svg\+xml$) | audio/ | video/ | font/woff | text/event-stream$
      | .*[/+-](?:zip|gzip|bzip2?|zstd|br|xz|lzma|compress|compressed|zip-compressed)$
      | application/(?:x-7z|x-rar|vnd\.rar|java-archive|vnd\.android\.package|font-woff
        |vnd\.openxmlformats-officedocument|vnd\.oasis\.opendocument)""",
    re.VERBOSE,
)
_types: dict[str, bool] = {}


def is_compressible(content_type: str) -> bool:
    """Whether content of this `Content-Type` is compressed: not already compressed types, and not event streams."""
    known = _types.get(content_type)
    if known is None:
        known = _COMPRESSED_TYPES.match(content_type.partition(";")[0].strip().lower()) is None
        if len(_types) >= MEMO_SIZE:
            _types.clear()
        if len(content_type) <= MEMO_TEXT:
            _types[content_type] = known
    return known


class Compression:
    """Compresses responses. `threshold`: bytes above which a complete body is compressed; 0 = compression is off."""

    def __init__(self, threshold: int) -> None:
        self._enabled = threshold > 0
        self.threshold = (
            threshold if threshold > 0 else sys.maxsize
        )  # bodies up to this length stay as they are, unless identity is refused

    def threshold_for(self, block: HeaderBlock) -> int:
        """The length of a body above which `apply` may have something to do for this client, if its response has VARY."""
        choice = choice_of(block)
        if not choice.identity:
            return 0
        return sys.maxsize if choice.coding is None else self.threshold

    def refusal(self, block: HeaderBlock) -> str | None:
        """Why no body can be sent to this client, None if one can: to be asked before any work is done."""
        choice = choice_of(block)
        if choice.identity or (choice.coding is not None and self._enabled):
            return None
        names = ", ".join(coding.name for coding in OFFERED) if self._enabled else "none"
        return f"No acceptable content coding; supported besides identity are {names}"

    def apply(self, request: Request, response: Response, compressible: bool = True) -> Response:
        """The response, its body compressed if client and content allow; changed in place.

        `compressible`: whether the content type's handler allows it. Raises NotAcceptable (406) for a body that could go only without a coding to
        a client that refuses this.
        """
        body = response.body
        if body is None:
            return response
        choice: Choice | None = request.block.memo.get("coding")
        if choice is None:
            choice = choice_of(request.block)
        if choice.identity:
            if type(body) is bytes and len(body) <= self.threshold:
                return response
            if choice.coding is None and VARY in response.pairs:
                return response
        return self.apply_choice(response, choice, compressible)

    def apply_choice(self, response: Response, choice: Choice, compressible: bool) -> Response:
        """`apply` by the choice for a client, whose `threshold_for` the body exceeds."""
        body = response.body
        if type(body) is str:
            body = response.body = body.encode()
        whole = body if type(body) is bytes else None
        if response.status in _NO_BODY or body is None or whole == b"" or isinstance(body, Feed):
            return response  # a feed is written when something happens, to be sent at once
        if whole is not None and len(whole) <= self.threshold and choice.identity:
            return response
        pairs = response.pairs
        may = _may_be_coded(pairs) if self._enabled else False
        if may is None:
            return response
        if not (may and compressible):
            if not choice.identity:
                raise NotAcceptable("This content is sent without a content coding only")
            return response
        add_vary(pairs, ("Accept-Encoding",))
        coding = choice.coding
        if coding is None:
            if not choice.identity:
                raise NotAcceptable("No acceptable content coding")
            return response
        if whole is None:
            stream = body
            if hasattr(stream, "__aiter__"):
                response.body = AsyncCompressedBody(stream.__aiter__(), coding)
            else:
                response.body = CompressedBody(iter(stream), coding)  # type: ignore[arg-type]
        elif len(whole) > MAX_AT_ONCE:
            response.body = CompressedBody(iter((whole,)), coding)
        else:
            coded = coding.compress(whole)
            if len(coded) >= len(whole) and choice.identity:
                return response
            response.body = coded
        _mark(pairs, coding)
        return response


def _may_be_coded(pairs: HeaderPairs) -> bool | None:
    """False: the content is compressed already. None: the handler has decided about its coding."""
    may = True
    for name, value in pairs:
        lower = name.lower()
        if lower == "content-type":
            may = is_compressible(value)
        elif lower in _DECIDED or (lower == "cache-control" and "no-transform" in value.lower()):
            return None
    return may


_DECIDED = frozenset({"content-encoding", "content-range", "content-digest", "content-md5"})  # the last two are about the bytes as sent


def add_vary(pairs: HeaderPairs, fields: tuple[str, ...]) -> None:
    """Add fields of a request to those that a response depends on."""
    if VARY in pairs:
        return
    missing = list(fields)
    last = -1
    for position, (name, value) in enumerate(pairs):
        if name.lower() == "vary":
            last = position
            members = {member.strip().lower() for member in value.split(",")}
            missing = [] if "*" in members else [field for field in missing if field.lower() not in members]
    if last < 0:
        pairs.append(("Vary", ", ".join(missing)))
    elif missing:
        pairs[last] = (pairs[last][0], ", ".join([pairs[last][1], *missing]))


# The length is that of the body without a coding, and ranges are cut from there too: they cannot complete a coded body.
_IDENTITY_ONLY = frozenset({"content-length", "accept-ranges"})


def _mark(pairs: HeaderPairs, coding: Coding) -> None:
    """A weak tag is not changed: it covers both representations."""
    kept: HeaderPairs = []
    for name, value in pairs:
        lower = name.lower()
        if lower == "etag" and value[:1] == '"':
            kept.append((name, f'"{coded_tag(value[1:-1], coding.name)}"'))
        elif lower not in _IDENTITY_ONLY:
            kept.append((name, value))
    pairs[:] = kept
    pairs.append(("Content-Encoding", coding.name))
