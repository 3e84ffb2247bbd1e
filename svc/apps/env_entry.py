"""The entry `loadEnv`: files of variables for the process environment (spec: components §2).

# .env
export MAIL_HOST=mail.example      # a comment
MAIL_PASSWORD="two words\\nand a line"
"""

from __future__ import annotations

import io
import os
from collections.abc import Sequence
from pathlib import Path

from dotenv.parser import parse_stream

from svc.apps.config_file import options_of, read_config
from svc.apps.entry import EntryContext, LoadedEntry, Runtime
from svc.apps.environment import PROCESS, Environment, EnvironmentLayer
from svc.apps.reading import read_limited
from svc.apps.status import EntryStatus

KEY = "loadEnv"
DEFAULT_FILES = ".env"
MAX_SIZE = 1 << 18  # bytes of a file


class EnvEntry(LoadedEntry):
    """Its variables are set when it is loaded, for the modules that are loaded after it; a version that does not take effect takes them back."""

    def __init__(self, context: EntryContext, said: EnvironmentLayer, environment: Environment) -> None:
        super().__init__(context)
        self._environment = environment
        self._name = f"{context.app.name}.{context.key}"
        self._before = environment.get(self._name)
        self._said = said
        self._is_active = False
        environment.set(self._name, said)

    def activate(self) -> None:
        self._is_active = True

    def needs_whole_load(self, names: Sequence[str]) -> bool:
        return any(map(self.contains, names))

    def withdraw(self) -> None:
        if self._environment.get(self._name) is self._said:
            self._environment.set(self._name, None if self._is_active else self._before)


async def load_first(name: str, directory: Path, runtime: Runtime) -> None:
    """Set the variables of an application that will be loaded: those of all are there before the first module is. Faults are told when it is."""
    from svc.apps.app import App

    try:
        config = await runtime.in_thread(read_config, directory)
    except (OSError, ValueError):
        return
    for key, entry in config.items():
        if key == KEY and entry:
            app = App(name, directory, config, runtime=runtime)
            await load_env(EntryContext(app, key, options_of(entry), EntryStatus(), runtime))


WITHOUT_VARIABLES = frozenset(("rest", "login"))
"""Entries that run no code, and may stand in front."""


async def load_env(context: EntryContext) -> LoadedEntry | None:
    status = context.status
    if next((key for key in context.app.config if key not in WITHOUT_VARIABLES), None) != context.key:
        status.warn(f"{context.key} must be the first entry of config.yaml, so that all others are loaded with its variables")
    context.warn_of_unknown_options(("files", "override"))
    override = context.options.get("override", False)
    if not isinstance(override, bool):
        status.fail("override must be true or false")
        override = False
    try:
        files = context.files(DEFAULT_FILES)
        matches = [match for match in await context.runtime.in_thread(files.matches) if not match.is_directory]
    except ValueError as error:
        status.fail(str(error))
        return None
    if not matches:
        status.warn(f"no file matches {context.options.get('files', DEFAULT_FILES)!r}")
    variables: dict[str, str] = {}
    for match in matches:
        try:
            found, faults = await context.runtime.in_thread(read_variables, match.path)
        except (OSError, ValueError) as error:
            status.fail(f"{match.name}: {error.strerror if isinstance(error, OSError) and error.strerror else error}")
            continue
        for line, fault in faults:
            status.fail(f"{match.name}, line {line}: {fault}")
        variables |= found if override else {name: value for name, value in found.items() if name not in variables}
    entry = EnvEntry(context, EnvironmentLayer(variables, override), PROCESS)
    entry.file_set = files
    return entry


def read_variables(path: Path) -> tuple[dict[str, str], list[tuple[int, str]]]:
    """(the variables of a file, (line, what is wrong with it)). Of a variable that is there twice the last one counts. No message has a value in it.

    Raises OSError, or ValueError for what is no such file at all.
    """
    raw = read_limited(path, MAX_SIZE)
    if len(raw) > MAX_SIZE:
        raise ValueError(f"it is larger than {MAX_SIZE} bytes")
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ValueError(f"it is not UTF-8: byte {error.start}") from None
    variables: dict[str, str] = {}
    faults: list[tuple[int, str]] = []
    for binding in parse_stream(io.StringIO(text)):
        blank = len(binding.original.string) - len(binding.original.string.lstrip())
        line = binding.original.line + binding.original.string[:blank].count("\n")
        if binding.error:
            faults.append((line, "it is not NAME=value, or a quote has no end"))
        elif binding.key is not None and binding.value is None:
            faults.append((line, f"{binding.key[:100]} has no value: write {binding.key[:100]}= for an empty one"))
        elif binding.key is not None and binding.value is not None:
            if not _can_be_set(binding.key, binding.value):
                faults.append((line, "a name or a value cannot hold a null character, and a name no '='"))
            else:
                variables[binding.key] = binding.value
    return variables, faults


def _can_be_set(name: str, value: str) -> bool:
    try:
        return bool(name) and "=" not in name and b"\0" not in os.fsencode(name) + os.fsencode(value)
    except UnicodeEncodeError:
        return False
