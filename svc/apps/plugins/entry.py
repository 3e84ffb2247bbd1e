"""Entries of config.yaml that a plugin handles, and those that say that a directory is a plugin (spec: plugins §2)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from svc.api.registry import ResourceRegistry
from svc.api.server import Server
from svc.apps.entry import EntryContext, LoadedEntry
from svc.apps.faults import reason_of
from svc.apps.files import url_prefix
from svc.apps.load_limit import LOAD_SECONDS
from svc.apps.modules import ApplicationModules, ModuleFault
from svc.apps.plugins.calls import PluginCalls
from svc.apps.plugins.finding import find_plugin, module_file
from svc.apps.plugins.module_functions import NAME, PluginFault, handler_of, seconds_of
from svc.apps.plugins.scope import Scope
from svc.apps.status import ERROR
from svc.errors import ApplicationFault
from svc.listeners.step import REST
from svc.messages import Request, Response
from svc.resources import Registration


class PluginEntry(LoadedEntry):
    """One plugin in one version of an application. What it registers has a `server` and `resources` of its own, so it can end without the others."""

    def __init__(self, context: EntryContext) -> None:
        super().__init__(context)
        interface, app = context.runtime.interface, context.app
        assert interface is not None and interface.server is not None
        former = app.loaded(context.key)
        self._former = former if isinstance(former, PluginEntry) else None
        self._successor: PluginEntry | None = None
        replaces = None if self._former is None else self._former.server
        self.server = interface.server.of_application(app.name, url_path=app.url_path, host=app.host, replaces=replaces, staged=True)
        self.resources: ResourceRegistry = ResourceRegistry(interface, self, self._register)
        self.server.resources = self.resources
        package = context.options.get("package")
        self.plugin = package.strip() if isinstance(package, str) else ""
        self.is_ready = False
        self._calls = PluginCalls(context)
        self._modules: ApplicationModules | None = None
        self._scope: Scope | None = None
        self._is_active = self._has_ended = False
        self._fault_server: Server | None = None

    async def load(self) -> None:
        """Raises PluginFault, ModuleFault, ValueError."""
        context = self.context
        found = await find_plugin(context, context.options.get("package"), self.server)
        self._modules = found.modules
        handler = handler_of(found.module)
        vars(found.module).setdefault("Response", Response)
        calls = self._calls
        calls.fault_of = found.fault_of
        calls.seconds = seconds_of(found.module, context.options, LOAD_SECONDS)
        scope = self._scope = Scope(self, calls)
        await calls.run(handler, scope, during=NAME)
        await scope._delivered()
        calls.is_loading = False

    def _register(self, registration: Registration) -> None:
        if self._has_ended:
            raise RuntimeError("the plugin has ended: it cannot register anything any more")
        if self._is_active:
            self.context.runtime.resources.change([registration])
        else:
            self.registrations.append(registration)

    # --- the application -------------------------------------------------------------------------------------------------------------

    def activate(self) -> None:
        if self._fault_server is not None:
            self._fault_server.activate()
        if self._has_ended:
            return
        self._is_active = True
        former, self._former = self._former, None
        for fault in self._calls.settings.activate():
            self._calls.report(fault, "a setting of a table")
        super().activate()
        if former is not None:
            former._calls.settings.withdraw()

    async def start(self) -> None:
        self.is_ready = True
        if self._scope is not None and not self._has_ended:
            await self._scope._ready()
        self._calls.end_change()

    def prepare_switch(self) -> None:
        """The switch to the version that this entry belongs to begins."""
        if self._former is not None and not self._has_ended:
            self._former._successor = self
            self._former._calls.settings.give_way()

    def withdraw(self) -> None:
        if self._fault_server is not None:
            self._fault_server.withdraw()
        if self._successor is None:
            self.end()
        else:  # whose server takes over what this one has registered
            self._end_code()

    def fail(self) -> None:
        """It could not be loaded: nothing of it is left, and the address of the entry answers with the reason, if it has one."""
        self.end()
        context = self.context
        try:
            prefix = url_prefix(context.options.get("urlPath"), context.app.name)
            if prefix == "/":
                return
            self._fault_server = context.make_server()
            reason = reason_of(context.app.name, context.status)
            self._fault_server.http(_Unavailable(reason), url_path=prefix, after=REST)
        except (TypeError, ValueError):
            return

    def end(self) -> None:
        """Nothing of the plugin is left in effect."""
        if self._has_ended:
            return
        self._end_code()
        self.registrations.clear()
        self._calls.settings.withdraw()
        assert self.server is not None
        self.server.withdraw()
        runtime = self.context.runtime
        if self._is_active:
            runtime.resources.change((), runtime.resources.owned_by(self))
        if runtime.interface is not None:
            runtime.interface.drop_unused_caches()

    def _end_code(self) -> None:
        if self._has_ended:
            return
        self._has_ended = True
        if self._scope is not None:
            self._scope._close()
        self._calls.end()
        if self._modules is not None:
            runtime = self.context.runtime
            if self._is_active and runtime.interface is not None:
                runtime.loop.call_later(runtime.interface.running.timeout, self._modules.forget)
            else:
                self._modules.forget()

    # --- changes -----------------------------------------------------------------------------------------------------------------------

    def contains(self, name: str) -> bool:
        return self._scope is not None and any(handler._contains(name) for handler in self._scope._handlers)

    async def change(self, names: Sequence[str]) -> bool:
        self._calls.begin_change()
        try:
            if self._has_ended:
                return True
            assert self._scope is not None
            for handler in list(self._scope._handlers):
                await handler._refresh([name for name in names if handler._contains(name)])
            return True
        finally:
            self._calls.end_change()

    def takes_options(self, options: Mapping[str, Any]) -> bool:
        scope = self._scope
        same = all(options.get(name) == self.context.options.get(name) for name in ("package", "timeout"))
        return same and scope is not None and not self._has_ended and scope.options.has_handlers

    async def change_options(self, options: Mapping[str, Any], config: Mapping[str, Any]) -> None:
        scope = self._scope
        assert scope is not None
        self._calls.begin_change()
        try:
            self.context.options = options
            changes = scope.options.replace(options, config)
            if any(path[0] in ("files", "urlPath") for path, _ in changes):
                for handler in list(scope._handlers):
                    await handler._follow()
            for path, value in changes:
                for callback in scope.options.handlers:
                    await self._calls.call(callback, path, value, scope.options.get_all(), during="the handler of changed options")
        finally:
            self._calls.end_change()

    def request_restart(self) -> None:
        if self._calls.is_loading or not self._is_active:
            self.context.status.warn("asks for a restart while it is loaded, which is not done")
        elif not self._has_ended:
            self.context.runtime.request_restart(self.context.app.name, self.context.key)

    def set_status(self, status: str, message: str) -> None:
        found = self.context.status
        found.report(status, message)
        found.checked_ms = int(self.context.runtime.clock.wall() * 1000)
        if message and not self._calls.is_collected:
            self._calls.log("error" if status == ERROR else "warn" if status == "warning" else "info", message)


class _Unavailable:
    """The listener at the address of a plugin that could not be loaded."""

    def __init__(self, reason: str) -> None:
        self._reason = reason

    def __call__(self, request: Request, next: Any) -> Any:
        raise ApplicationFault(self._reason, request.user)


async def load_plugin(context: EntryContext) -> LoadedEntry | None:
    """An entry with `package`."""
    interface = context.runtime.interface
    if context.code is None or interface is None or interface.server is None:
        return None
    entry = PluginEntry(context)
    try:
        await entry.load()
    except ModuleFault as fault:
        context.status.fail(str(fault), fault.details)
        entry.fail()
    except (PluginFault, ValueError) as fault:
        context.status.fail(f"package '{context.options.get('package')}': {fault}")
        entry.fail()
    except BaseException:
        entry.end()
        raise
    return entry


async def load_plugin_module(context: EntryContext) -> LoadedEntry | None:
    """`pluginModule: plugin.py`: the directory is a plugin, which works in the applications that name it."""
    if context.code is None:
        return None
    try:
        file = module_file(context.app.directory, {context.key: context.app.config[context.key]})
        assert file is not None
        handler_of(context.code.load(file))
    except ModuleFault as fault:
        context.status.fail(str(fault), fault.details)
    except PluginFault as fault:
        context.status.fail(str(fault))
    return LoadedEntry(context)
