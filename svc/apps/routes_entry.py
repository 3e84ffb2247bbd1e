"""The entry `frameworkRoutes`: ASGI applications beside the resources (spec: plugins §1)."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from types import ModuleType
from typing import Any

from svc.apps.calls import SteppedAwaitable, call
from svc.apps.code import CodeVersion
from svc.apps.entry import EntryContext, LoadedEntry
from svc.apps.faults import reason_of
from svc.apps.files import MatchedFile
from svc.apps.load_limit import LOAD_SECONDS, LoadTimeout
from svc.apps.modules import ModuleFault

DEFAULT_FILES = "routes/*.py"


class RoutesFault(Exception):
    """What a module offers cannot be served."""


class _Directory:
    """The modules that are mounted at one path: ASGI applications, each with the name of its file; `router`: for all that register routes."""

    def __init__(self, context: EntryContext) -> None:
        self.apps: list[tuple[str, Any]] = []
        self.has_failed = False
        self._context = context
        self._router: Any = None

    async def router(self, name: str) -> Any:
        """Raises RoutesFault without a library that has one. `name`: of the file that asks for it."""
        if self._router is None:
            make = await self._context.runtime.in_thread(_framework)
            app = make(self._context.app.name)
            self.apps.append((name, app))
            self._router = app.router
        return self._router


async def load_routes(context: EntryContext) -> LoadedEntry | None:
    code, status = context.code, context.status
    if code is None or code.server is None:
        return None
    entry = LoadedEntry(context)
    try:
        entry.file_set = context.files(DEFAULT_FILES)
        matches: list[MatchedFile] = await context.runtime.in_thread(entry.file_set.matches)
    except ValueError as error:
        status.fail(str(error))
        return entry
    files = [match for match in matches if match.path.suffix == ".py" and not match.path.name.startswith("_")]
    if not files:
        if context.app.has_config_file:
            status.warn(f"no file matches {context.options.get('files', DEFAULT_FILES)!r}")
        return entry
    directories: dict[str, _Directory] = {}
    for match in files:
        path = match.url_path[: match.url_path.rfind("/") + 1]
        directory = directories.setdefault(path, _Directory(context))
        try:
            await _load_module(code, match, directory)
        except ModuleFault as fault:
            directory.has_failed = True
            status.fail(f"{match.name}: {fault}", fault.details)
        except RoutesFault as fault:
            directory.has_failed = True
            status.fail(f"{match.name}: {fault}")
    for path, directory in directories.items():
        await _mount(context, code, path, directory)
    return entry


async def _load_module(code: CodeVersion, match: MatchedFile, directory: _Directory) -> None:
    """Raises ModuleFault, RoutesFault."""
    module = code.load(match.path)
    app, register = vars(module).get("app"), vars(module).get("register")
    if (app is None) is (register is None):
        offered = "neither `app`, an ASGI application, nor" if app is None else "both `app` and"
        hint = "; the name of a file that is only imported begins with _" if app is None else ""
        raise RoutesFault(f"offers {offered} `register(router, svc)`{hint}")
    if app is not None:
        if not _is_asgi(app):
            raise RoutesFault(f"`app` is no ASGI 3 application, which is called with (scope, receive, send), but {type(app).__name__}")
        directory.apps.append((match.name, app))
        return
    if not callable(register):
        raise RoutesFault(f"`register` is no function, but {type(register).__name__}")
    await _register(code, module, register, await directory.router(match.name))


async def _register(code: CodeVersion, module: ModuleType, register: Any, router: Any) -> None:
    """A module that fails registers nothing."""
    routes = list(router.routes)
    try:
        await call(lambda: _guard(code), register, router, code.modules.interface_module)
    except (Exception, LoadTimeout) as error:
        router.routes[:] = routes
        raise code.modules.fault_of(error) from error


@contextmanager
def _guard(code: CodeVersion) -> Iterator[None]:
    with code.together(), code.loading():
        yield


async def _mount(context: EntryContext, code: CodeVersion, path: str, directory: _Directory) -> None:
    status, resources = context.status, context.runtime.resources
    assert code.server is not None
    try:
        routes = code.server.mount_routes(path, lambda whole: resources.find(whole, "ws") is not None)
    except (RuntimeError, ValueError) as error:
        status.fail(f"{directory.apps[0][0] if directory.apps else path}: {error}")
        return
    for name, app in directory.apps:
        reason = await routes.add(app, f"{context.app.name}/{name}", LOAD_SECONDS, _limited(app))
        if reason:
            directory.has_failed = True
            status.fail(f"{name}: the application has not started: {reason}")
    if directory.has_failed:
        routes.fault = reason_of(context.app.name, status)


def _limited(app: Any) -> Any:
    """The same for its lifespan: a step of that which never waits is ended."""

    async def run(scope: Any, receive: Any, send: Any) -> None:
        try:
            await SteppedAwaitable(app(scope, receive, send), nullcontext, LOAD_SECONDS)
        except LoadTimeout as error:
            await send({"type": "lifespan.startup.failed", "message": str(error)})

    return run


def _is_asgi(app: Any) -> bool:
    if not callable(app) or inspect.isclass(app):
        return False
    try:
        inspect.signature(app).bind(None, None, None)
    except TypeError:
        return False
    except ValueError:  # compiled, without a signature
        pass
    return True


def _framework() -> Callable[[str], Any]:
    """What makes an application of FastAPI, or of Starlette, by its title. Raises RoutesFault without both. The import takes a while: for a helper thread."""
    try:
        from fastapi import FastAPI
    except ImportError:
        pass
    else:
        return lambda title: FastAPI(title=title, openapi_url=None)
    try:
        from starlette.applications import Starlette
    except ImportError:
        raise RoutesFault(
            "`register` needs FastAPI or Starlette, which are not installed: pip install 'svc[routes]', or offer an ASGI application as `app`"
        ) from None
    return lambda title: Starlette()
