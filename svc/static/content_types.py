"""The content type of a file, by its extension. It depends on nothing that is installed on the machine."""

from __future__ import annotations

import functools
import mimetypes
import re

from svc.http.raw_content import DEFAULT_TYPE

_UTF8 = "; charset=utf-8"

# What mimetypes has not, has differently in some versions of Python, or what browsers want otherwise.
_TYPES = {
    "avif": "image/avif",
    "bz2": "application/x-bzip2",
    "cjs": "text/javascript",
    "css": "text/css",
    "csv": "text/csv",
    "flac": "audio/flac",
    "geojson": "application/geo+json",
    "gz": "application/gzip",
    "heic": "image/heic",
    "htm": "text/html",
    "html": "text/html",
    "ico": "image/vnd.microsoft.icon",
    "ics": "text/calendar",
    "js": "text/javascript",
    "json": "application/json",
    "jsonld": "application/ld+json",
    "m4a": "audio/mp4",
    "m4v": "video/mp4",
    "map": "application/json",
    "md": "text/markdown",
    "mjs": "text/javascript",
    "ogg": "audio/ogg",
    "ogv": "video/ogg",
    "opus": "audio/ogg",
    "otf": "font/otf",
    "parquet": "application/vnd.apache.parquet",
    "rtf": "application/rtf",
    "svg": "image/svg+xml",
    "svgz": DEFAULT_TYPE,  # it would need a content coding, which browsers that cannot decode it are not asked about
    "toml": "application/toml",
    "ttf": "font/ttf",
    "txt": "text/plain",
    "wasm": "application/wasm",
    "webm": "video/webm",
    "webmanifest": "application/manifest+json",
    "webp": "image/webp",
    "woff": "font/woff",
    "woff2": "font/woff2",
    "xhtml": "application/xhtml+xml",
    "xml": "application/xml",
    "yaml": "application/yaml",
    "yml": "application/yaml",
    "zst": "application/zstd",
}

_COMPRESSIBLE = re.compile(
    r"""text/ | .*\+(?:json|xml)$ | image/(?:bmp|vnd\.microsoft\.icon)$ | font/(?:ttf|otf)$ | model/
      | application/(?:json|xml|wasm|toml|yaml|rtf|javascript|x-sh|x-tex|x-latex|postscript|sql|x-ndjson|vnd\.ms-fontobject)$""",
    re.VERBOSE,
)

_builtin = mimetypes.MimeTypes(filenames=()).types_map[True]  # what Python itself knows; /etc/mime.types is not read into it


def content_type_of(name: str) -> str:
    """The `Content-Type` of a file of this name.

    >>> content_type_of("web/a.HTML"), content_type_of("photo.jpeg"), content_type_of("LICENSE"), content_type_of("a.tar.gz")
    ('text/html; charset=utf-8', 'image/jpeg', 'application/octet-stream', 'application/gzip')
    """
    base, dot, extension = name.rpartition("/")[2].rpartition(".")
    if not dot or not base:
        return DEFAULT_TYPE
    extension = extension.lower()
    found = _TYPES.get(extension) or _builtin.get(f".{extension}", DEFAULT_TYPE)
    return found + _UTF8 if found.startswith("text/") else found


@functools.lru_cache(1024)
def is_compressible(content_type: str) -> bool:
    """Whether files of this type become clearly shorter: text, in its many forms. Others are compressed themselves, or nothing is known of them.

    >>> is_compressible("text/css; charset=utf-8"), is_compressible("image/svg+xml"), is_compressible("image/png"), is_compressible(DEFAULT_TYPE)
    (True, True, False, False)
    """
    return _COMPRESSIBLE.match(content_type.partition(";")[0]) is not None
