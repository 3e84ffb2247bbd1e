"""What `package` of a deployment means (spec: deployment §5).

    file:PATH, /PATH                         a directory, which is linked, or an archive
    http(s)://host/x.tar.gz                  an archive
    git+https://..., git+ssh://..., git+file://..., https://host/owner/repo      a repository, with #ref
    owner/repo                               the same at github.com
    pypi:NAME, pypi:NAME==VERSION            a package of the index of pip

`#semver:v1.2.3` means the tag v1.2.3.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from svc.deploying.names import MAX_PROJECT
from svc.errors import ClientError

MAX_REFERENCE = 2000  # characters
ARCHIVES = (".tar.gz", ".tgz", ".tar", ".tar.zst", ".whl", ".zip")

_SHORT = re.compile(r"[A-Za-z0-9][A-Za-z0-9-]{0,38}/[A-Za-z0-9_.-]{1,100}", re.ASCII)
_PYPI = re.compile(r"(?P<name>[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?)(?:==(?P<version>[A-Za-z0-9.!+_-]+))?", re.ASCII)
_REF = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_./+-]{0,200}", re.ASCII)
_GIT = ("git+https", "git+http", "git+ssh", "git+file")


@dataclass(frozen=True)
class LocalPath:
    path: Path


@dataclass(frozen=True)
class Download:
    url: str


@dataclass(frozen=True)
class Repository:
    """`ref`: a branch, a tag or a commit; empty: its default branch."""

    url: str
    ref: str = ""


@dataclass(frozen=True)
class IndexPackage:
    name: str
    version: str = ""


Reference = LocalPath | Download | Repository | IndexPackage


def parse_reference(text: str) -> Reference:
    """Raises ClientError 400.

    >>> parse_reference("acme/shop#semver:v2.0.1")
    Repository(url='https://github.com/acme/shop.git', ref='v2.0.1')
    >>> parse_reference("https://example.com/shop-1.tar.gz")
    Download(url='https://example.com/shop-1.tar.gz')
    """
    if len(text) > MAX_REFERENCE or not text.isprintable() or " " in text.strip() != text:
        raise _unsupported(text)
    if text.startswith("/"):
        return LocalPath(Path(text))
    if text.startswith("file:"):
        path = text.removeprefix("file://") if text.startswith("file:///") else text.removeprefix("file:")
        if not path.startswith("/"):
            raise ClientError(f"Package reference not supported: {text}; the path after file: must be absolute")
        return LocalPath(Path(path))
    if text.startswith("pypi:"):
        found = _PYPI.fullmatch(text.removeprefix("pypi:"))
        if found is None:
            raise ClientError(f"Package reference not supported: {text[:200]}; write pypi:NAME or pypi:NAME==VERSION")
        return IndexPackage(found["name"], found["version"] or "")
    address, _, ref = text.partition("#")
    ref = _ref(text, ref)
    if "://" not in address:
        if _SHORT.fullmatch(address) and ".." not in address:
            return Repository(f"https://github.com/{address.removesuffix('.git')}.git", ref)
        raise _unsupported(text)
    try:
        parts = urlsplit(address)
        host, _ = parts.hostname, parts.port
    except ValueError:
        raise _unsupported(text) from None
    if parts.scheme in _GIT:
        if not host and parts.scheme != "git+file":
            raise _unsupported(text)
        return Repository(address.removeprefix("git+"), ref)
    if parts.scheme not in ("http", "https") or not host:
        raise _unsupported(text)
    if parts.path.endswith(ARCHIVES) and not ref:
        return Download(address)
    if len([part for part in parts.path.split("/") if part]) >= 2:
        return Repository(address, ref)
    raise _unsupported(text)


def _ref(text: str, ref: str) -> str:
    ref = ref.removeprefix("semver:")
    if ref and (_REF.fullmatch(ref) is None or ".." in ref):
        raise ClientError(f"Package reference not supported: {text[:200]}; after # a branch, a tag or a commit is expected, or semver:TAG")
    return ref


def project_of(reference: Reference) -> str:
    """The name of the project that a reference stands for; empty if it has none.

    >>> project_of(parse_reference("git+ssh://git@github.com/acme/my-shop.git#v2")), project_of(parse_reference("pypi:svc.shop==1.0"))
    ('my-shop', 'svc-shop')
    """
    match reference:
        case LocalPath(path):
            name = path.name
        case Download(url):
            name = urlsplit(url).path.rstrip("/").rpartition("/")[2]
        case Repository(url):
            name = urlsplit(url).path.rstrip("/").rpartition("/")[2].removesuffix(".git")
        case IndexPackage(name):
            pass
    for ending in ARCHIVES:
        name = name.removesuffix(ending)
    return re.sub(r"[^a-zA-Z0-9_-]+", "-", name).strip("-")[:MAX_PROJECT]


def shown(text: str) -> str:
    """A reference without the password in it.

    >>> shown("git+https://ann:word@example.com/a/b#v1")
    'git+https://example.com/a/b#v1'
    """
    scheme, separator, rest = text.partition("://")
    place, slash, path = rest.partition("/")
    return f"{scheme}{separator}{place.rpartition('@')[2]}{slash}{path}" if separator and not scheme.endswith("ssh") else text


def _unsupported(text: str) -> ClientError:
    return ClientError(
        f"Package reference not supported: {text[:200]}; use pypi:NAME for a package of the index, owner/repo#ref, git+https://..., git+ssh://...,"
        " https://.../x.tar.gz or file:/PATH"
    )
