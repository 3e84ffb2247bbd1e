"""The templates of pages (Jinja; everything that is put into them is escaped).

Jinja is imported, and the templates are compiled, for the first page, on a helper thread: that takes a tenth of a second, and many servers never show a
page. What a template makes comes in pieces, with other requests served in between: a table of some thousand cells takes longer than a slice.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import Executor
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from jinja2 import Environment

_DIRECTORY = Path(__file__).parent / "templates"
_SLICE = 0.002  # seconds of work before other requests are served
_PIECES = 50  # between two looks at the clock


class Templates:
    """`executor`: None loads them on the loop, which is for tests. `directories`: that are looked through before those of the pages."""

    def __init__(self, now: Callable[[], float], executor: Executor | None = None, directories: tuple[Path, ...] = ()) -> None:
        self._now = now
        self._executor = executor
        self._load = partial(load_templates, directories)
        self._environment: Environment | None = None
        self._loading: asyncio.Future[Environment] | None = None

    async def render(self, name: str, values: dict[str, Any]) -> bytes:
        """The page, as UTF-8."""
        return b"".join([piece async for piece in self.stream(name, values)])

    def maybe_render(self, name: str, values: dict[str, Any]) -> bytes | None:
        """A short page at once; None while the templates are not loaded: then `stream` makes it."""
        if self._environment is None and self._executor is None:
            self._environment = self._load()
        return None if self._environment is None else b"".join(map(_encoded, self._pieces(self._environment, name, values)))

    async def stream(self, name: str, values: dict[str, Any]) -> AsyncIterator[bytes]:
        environment = self._environment or await self._loaded()
        gathered: list[str] = []
        deadline = self._now() + _SLICE
        for piece in self._pieces(environment, name, values):
            gathered.append(piece)
            if len(gathered) >= _PIECES:
                yield _encoded("".join(gathered))
                gathered.clear()
                if self._now() >= deadline:
                    await asyncio.sleep(0)
                    deadline = self._now() + _SLICE
        yield _encoded("".join(gathered))

    @staticmethod
    def _pieces(environment: Environment, name: str, values: dict[str, Any]) -> Iterator[str]:
        pieces: Iterator[str] = environment.get_template(name).generate(values)
        return pieces

    async def _loaded(self) -> Environment:
        if self._executor is None:
            self._environment = self._load()
            return self._environment
        loading = self._loading
        if loading is None:
            loading = self._loading = asyncio.get_running_loop().run_in_executor(self._executor, self._load)
        try:
            self._environment = await asyncio.shield(loading)
        finally:
            if loading.done() and self._loading is loading:
                self._loading = None  # what has failed is tried again
        return self._environment


def load_templates(directories: tuple[Path, ...] = ()) -> Environment:
    """The templates of the pages and of these directories, compiled; of two with one name that of the first directory. Blocks. Raises what Jinja says is
    wrong in one of them."""
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    from svc.pages.markup import boxes_of, cell_of, facets_of, head_of, options_of, rows_of, select_of

    environment = Environment(
        loader=FileSystemLoader([*directories, _DIRECTORY]),
        autoescape=True,
        undefined=StrictUndefined,
        auto_reload=False,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.globals |= {each.__name__: each for each in (rows_of, cell_of, head_of, boxes_of, options_of, select_of, facets_of)}
    for name in environment.list_templates(extensions=["html"]):
        environment.get_template(name)
    return environment


def _encoded(text: str) -> bytes:
    return text.encode("utf-8", "replace")  # lone surrogates are shown as escapes (`cells`), but an address may be anything
