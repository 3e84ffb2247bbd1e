"""Parts of a response: which content type, header fields, 304, raw content, compression (spec: http §4, §7.1, §7.4)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from svc.awaitables import then
from svc.clock import Clock
from svc.content.content_type import ContentType
from svc.content.registry import ContentTypes
from svc.errors import NotAcceptable
from svc.http.compression import VARY, Compression, add_vary
from svc.http.conditional import last_modified
from svc.http.media_types import encode_text
from svc.http.preferences import Preferences, preferences_of
from svc.http.raw_content import VARY_RAW, raw_response
from svc.messages import HeaderPairs, Request, Response
from svc.resources import RequestTarget, Resources
from svc.store.values.records import version_of

PRIVATE = ("Cache-Control", "private, no-cache")
PUBLIC = ("Cache-Control", "public, no-cache")  # shared caches may keep it and have to ask each time: rights and records change


def keep_from_others(pairs: HeaderPairs) -> None:
    """Have no cache give an answer to an identified caller to another one, unless it says itself what caches may do (spec: http §4.3)."""
    for name, _ in pairs:
        if name.lower() in ("cache-control", "expires"):
            return
    pairs.append(PRIVATE)
    add_vary(pairs, ("Authorization", "Cookie"))


@dataclass(frozen=True)
class RestOptions:
    """`pages`: a page of a query has a `Link` to the next page. `sandbox`: content that users have stored runs no scripts in browsers."""

    last_modified: bool = False
    pages: bool = True
    sandbox: bool = True


class ResponseParts:
    """What all responses share. `ResponseBuilder` inherits from this and from the classes of records and rows, so that there is no delegating call."""

    def __init__(
        self,
        types: ContentTypes,
        compression: Compression,
        clock: Clock,
        report: Callable[[BaseException], None],
        options: RestOptions,
        resources: Resources | None = None,
    ) -> None:
        """`resources`: the addresses of new records (`Location`); None: this interface creates no records."""
        self._resources = Resources() if resources is None else resources
        self.types = types
        self._compression = compression
        self._now = clock.monotonic
        self._wall = clock.wall
        self._report = report
        self.options = options

    def writer(self, preferences: Preferences, target: RequestTarget | None = None) -> ContentType:
        """The content type of the response; an extension in the address overrides `Accept` (spec: http §1.2). Raises NotAcceptable."""
        if target is not None and target.extension is not None:
            named = self.types.named(target.extension)
            if named is None:
                raise NotAcceptable(f"{target.extension} is not served here")
            return named
        if preferences.writer is None:
            raise NotAcceptable(preferences.refusal)
        return preferences.writer

    def preferences(self, request: Request) -> Preferences:
        preferences: Preferences | None = request.block.memo.get("rest")
        if preferences is None or preferences.generation != self.types.generation:
            return preferences_of(request.block, self.types, self._compression)
        return preferences

    def _record_pairs(self, request: Request, type_pair: tuple[str, str], raw: bytes, tag: str) -> HeaderPairs:
        pairs: HeaderPairs = [type_pair, ("ETag", f'"{tag}"'), VARY]
        pairs.append(PUBLIC if request.user is None else PRIVATE)
        if self.options.last_modified:
            pairs.append(("Last-Modified", last_modified(version_of(raw))))
        return pairs

    def _unchanged(
        self, request: Request, preferences: Preferences, matched: str, pairs: HeaderPairs, whole: Callable[[Preferences], Any]
    ) -> Response:
        """304, with the fields of the 200 but for `Content-Type`, which is the first of `pairs`.

        Its entity tag names the representation that is still valid: the one that the client has named, or (`matched` is "") the one that it would get
        now. Whether that has a content coding is only known when it is complete: `whole` builds it.
        """
        if matched == "":
            if preferences.coding is None or "range" in request.block.fields:
                return Response(None, 304, pairs=pairs[1:])
            response = whole(preferences.without_conditions())
            if type(response) is Response:
                matched = (response.headers.get("ETag") or "")[1:-1]
            close = getattr(response.body if type(response) is Response else response, "close", None)
            if close is not None:
                close()
        return Response(None, 304, pairs=[("ETag", f'"{matched}"') if pair[0] == "ETag" and matched else pair for pair in pairs[1:]])

    def _raw_content(self, request: Request, content: dict[str, Any], pairs: HeaderPairs) -> Response:
        """The body of a stored `{contentType, data}`, with its own type (spec: http §7.4)."""
        data = content["data"]
        content_type = content["contentType"]
        if isinstance(data, str):
            data, content_type = encode_text(data, content_type)
        return self._raw(request, data, pairs, content_type)

    def _raw(self, request: Request, data: Any, pairs: HeaderPairs, content_type: str | None = None) -> Response:
        """`data`: bytes, or a blob, which has its own content type."""
        kept = [pair for pair in pairs if pair[0] not in ("Content-Type", "Vary")]
        return self._compression.apply(
            request, raw_response(request, content_type, data, kept, vary=VARY_RAW, sandbox=self.options.sandbox)
        )

    def _respond(self, request: Request, writer: ContentType, body: Any, status: int, pairs: HeaderPairs) -> Any:
        """`body`: bytes, or an awaitable of them from an application's content type."""
        if writer.headers:
            pairs += writer.headers
        if type(body) is not bytes:
            return then(body, lambda encoded: self._compressed(request, writer, Response(encoded, status, pairs=pairs)))
        response = Response(body, status, pairs=pairs)
        if len(body) <= self.preferences(request).threshold:
            return response
        return self._compression.apply(request, response, writer.compressible)

    def _compressed(self, request: Request, writer: ContentType, response: Response) -> Response:
        return self._compression.apply(request, response, writer.compressible)
