"""Overrides: the environment and the command line beat the file for one run (spec: configuration §3).

Names are paths joined by `_` in any case: `HTTP_PORT`, `--http_port`. The same flat names serve `set_configuration` and `svc config set`. Whole
objects come through the variables of `layers`, whose values a start writes into the file; `editing` makes all other changes of it.
"""

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

from svc.clock import SYSTEM_CLOCK, Clock
from svc.config import layers
from svc.config.build import CONFIG_FILE, Config, build
from svc.config.document import Document, MarkedDocument, changed, read_marked, translated, write_text
from svc.config.origins import Origins, nearest
from svc.config.patching import patched_text
from svc.config.relocation import relocated
from svc.config.settings import ACCESS_LISTS, BY_NAME, DEVELOPMENT, LEGACY, LOOPBACK_ORIGINS, SECTIONS, override_names, without_effect
from svc.config.values import cast_text

_FOREIGN = re.compile(r"proxy|_service_|_tcp|_udp|^node_env$", re.IGNORECASE)
"""Variables of other programs that begin like ours: of proxies, of Node.js, and those of Kubernetes for a service with the name of a section."""


_LINK = re.compile(r"(?:tcp|udp|sctp)://", re.IGNORECASE)


@dataclass(frozen=True)
class ExaminedConfig:
    """A configuration with all overrides, of which nothing has been written yet. `marked`: the file; `singles`: the values of the environment and
    the command line, by dotted name; `merged`: the document of this run; `stored`: what a start writes, without `singles`."""

    config: Config
    origins: Origins
    file: Path
    marked: MarkedDocument
    merged: layers.MergedDocument
    stored: layers.MergedDocument
    singles: Mapping[str, object]


def examine(
    root: Path,
    *,
    environ: Mapping[str, str] | None = None,
    options: Mapping[str, str] | None = None,
    file: Path | None = None,
) -> ExaminedConfig:
    """Read the file and apply all overrides, without writing. Raises ConfigError."""
    root = root.expanduser().absolute()
    file = file or root / CONFIG_FILE
    marked = read_marked(file)
    before = relocated(marked.document, root)  # or a new `rootPath` would leave its old paths
    singles = single_values(before, environ or {}, options or {})
    if "rootPath" in singles:
        singles["rootPath"] = str(root)  # normalized
    merged = layers.merge(before, singles, environ or {}, root)
    stored = layers.merge(before, {}, environ or {}, root)
    if stored.document == before:  # where the root has been moved, nothing but that
        stored.document = marked.document
    sources = {".".join(leaf): variable for leaf, variable in (merged.state.sources.items() if merged.state else ())}
    origins = Origins(file.name, marked.lines, single_sources(environ or {}, options or {}) | sources)
    config = build(merged.document, root, file=file, origins=origins)
    notes = (*_doubled_notes(marked, file), *config.notes, *_unknown_names(environ or {}, options or {}), *_link_notes(environ or {}))
    forced = merged.leaves_of_variable(layers.SET)
    overrides = {name: value for name, value in singles.items() if tuple(name.split(".")) not in forced}
    return ExaminedConfig(replace(config, notes=notes, overrides=overrides), origins, file, marked, merged, stored, singles)


def with_singles(document: Document, root: Path, environ: Mapping[str, str], options: Mapping[str, str]) -> Document:
    """The first document of a root with the values of the environment and the command line set in it. Raises ConfigError if a start with it, and with
    all other overrides, would fail."""
    singles = single_values(document, environ, options)
    singles.pop("rootPath", None)  # it is in the document, normalized
    origins = Origins(CONFIG_FILE, {}, single_sources(environ, options))
    build(layers.merge(document, singles, environ, root).document, root, origins=origins)
    return changed(document, singles)


def load_config(
    root: Path,
    *,
    environ: Mapping[str, str] | None = None,
    options: Mapping[str, str] | None = None,
    dev: bool = False,
    file: Path | None = None,
) -> Config:
    """Read the configuration of a root directory and apply all overrides. Values of the variables of `layers` are written into the file.

    `environ` and `options` are looked at for settings only; `dev` adds the values of development. Raises ConfigError; then nothing has been written.
    """
    examined = examine(root, environ=environ, options=options, file=file)
    result, stored, file = examined.config, examined.stored, examined.file
    notes = list(result.notes)
    try:
        if stored.document != examined.marked.document:
            write_text(file, patched_text(examined.marked, stored.document))
        stored.save_state()
    except OSError as error:  # a file system that is read-only: what was given counts for this run
        notes.append(("error", f"The configuration could not be written to {file}: {error.strerror}"))
    if dev:
        development = {name: value for name, value in DEVELOPMENT.items() if name not in examined.singles}
        for name in ACCESS_LISTS & development.keys():  # besides those that the file lists
            listed = [origin for origin in result.values[name] or () if origin not in (None, "*", "null")]
            development[name] = list(dict.fromkeys([*LOOPBACK_ORIGINS, *listed]))
        document = changed(examined.merged.document, development)
        result = replace(build(document, result.root, dev=True, file=file), overrides={**result.overrides, **development})
    return replace(result, notes=tuple(notes))


def reread(config: Config) -> Config:
    """The configuration as the file says now, with the overrides of this run. Writes nothing.

    For what may change while the server runs: the `logging` sections. Raises ConfigError if the file is not usable.
    """
    assert config.file is not None
    marked = read_marked(config.file)
    return rebuilt(config, marked.document, Origins(config.file.name, marked.lines))


def rebuilt(config: Config, document: Document, origins: Origins | None = None) -> Config:
    """The same configuration, and the same overrides, with another document of the file. Raises ConfigError."""
    if config.overrides:
        document = changed(relocated(document, config.root), dict(config.overrides))
    result = build(document, config.root, dev=config.dev, file=config.file, origins=origins)
    return replace(result, overrides=config.overrides)


def _doubled_notes(marked: MarkedDocument, file: Path) -> list[tuple[str, str]]:
    return [
        ("warn", f"'{name}' is in {file.name} twice, in lines {first} and {last}; the last one counts")
        for name, (first, last) in marked.doubled
    ]


def _is_link(text: str, name: str) -> bool:
    """Whether it is what Docker and Kubernetes set for a container or service beside this one: for one with the name `http`, HTTP_PORT is
    `tcp://10.0.0.7:80`."""
    setting = BY_NAME.get(LEGACY.get(name, name))
    return setting is not None and setting.kind == "port" and _LINK.match(text) is not None


def _meant(environ: Mapping[str, str]) -> dict[str, str]:
    """Without variables that say nothing: an empty one is how a container is started without a value."""
    known = override_names()
    return {
        flat: text for flat, text in environ.items() if (name := known.get(flat.lower())) is None or (text and not _is_link(text, name))
    }


def _link_notes(environ: Mapping[str, str]) -> list[tuple[str, str]]:
    known = override_names()
    links = [flat for flat, text in environ.items() if (name := known.get(flat.lower())) is not None and _is_link(text, name)]
    return [
        (
            "warn",
            f"The environment variable {flat} is the address of another container and is ignored; enableServiceLinks: false in Kubernetes"
            " leaves such variables out, the configuration file or an option sets the port",
        )
        for flat in links
    ]


def single_sources(environ: Mapping[str, str], options: Mapping[str, str]) -> dict[str, str]:
    """Dotted name -> what sets it, for messages; the command line beats the environment."""
    result: dict[str, str] = {}
    for source, text in ((_meant(environ), "environment variable "), (options, "option --")):
        former: dict[str, str] = {}
        current: dict[str, str] = {}
        for flat in source:
            name = override_names().get(flat.lower())
            if name is not None:
                (current if name in BY_NAME else former)[LEGACY.get(name, name)] = text + flat
        result |= former | current
    return result


def _unknown_names(environ: Mapping[str, str], options: Mapping[str, str]) -> list[tuple[str, str]]:
    """A `warn` note per variable that begins like a section and is spelt much like a setting, without being one, and per variable and option
    that has no effect any more."""
    sections = tuple(f"{section.lower()}_" for section in SECTIONS)
    known, ineffective = override_names(), without_effect()
    notes = [("warn", f"The option --{name} has no effect: {ineffective[name.lower()]}") for name in options if name.lower() in ineffective]
    for name in environ:
        flat = name.lower()
        if flat in known or not flat.startswith(sections) or _FOREIGN.search(flat):
            continue
        if flat in ineffective:
            notes.append(("warn", f"The environment variable {name} has no effect: {ineffective[flat]}"))
            continue
        meant = nearest(flat, known)
        if meant and meant.partition("_")[0] == flat.partition("_")[0]:
            notes.append(("warn", f"The environment variable {name} is not a setting and is ignored, did you mean {meant.upper()}?"))
    return notes


def single_values(document: Document, environ: Mapping[str, str], options: Mapping[str, str]) -> dict[str, object]:
    """The settings that the environment and the command line name, by dotted name; the command line wins, today's names win."""
    result: dict[str, object] = {}
    for source in (_meant(environ), options):
        former: dict[str, object] = {}
        current: dict[str, object] = {}
        for flat, text in source.items():
            name = override_names().get(flat.lower())
            if flat.lower() == "replication_hostname" and not isinstance(document.get("replication"), dict):
                name = None  # the former name of NODE_HOSTNAME; must not bring a replication section into being
                former["node.hostname"] = text
            if name is None:
                continue
            changes = changes_of(document, name, text)
            (current if name in BY_NAME else former).update(changes)
        result |= {name: value for name, value in former.items() if name not in current} | current
    return result


def changes_of(document: Document, name: str, value: object) -> dict[str, object]:
    """The changes of the document that set `name` (a present or former name) to `value`; strings are converted. Former ones without
    effect change nothing."""
    if name in BY_NAME:
        return {name: cast_text(value, BY_NAME[name].kind) if isinstance(value, str) else value}
    target = LEGACY[name]
    kind = "bool" if name in ("https_on", "disable_transaction_log") else BY_NAME[target].kind
    return translated(document, name, cast_text(value, kind) if isinstance(value, str) else value)


def copy_before_writing(file: Path, root: Path, clock: Clock = SYSTEM_CLOCK) -> list[tuple[str, str]]:
    """Keep the file as it is in `backup/`. A copy that cannot be made is a note at `error`."""
    stamp = datetime.fromtimestamp(clock.wall(), UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z").replace(":", "-")
    directory = root / "backup"
    names = [stamp, *(f"{stamp}-{number}" for number in range(1, 100))]
    target = directory / f"{stamp}-{CONFIG_FILE}.bak"
    try:
        data = file.read_bytes()
        directory.mkdir(mode=0o700, exist_ok=True)
        for name in names:
            target = directory / f"{name}-{CONFIG_FILE}.bak"
            try:
                descriptor = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
            except FileExistsError:
                continue  # two changes within a millisecond
            with open(descriptor, "wb") as stream:
                stream.write(data)
            return []
    except OSError as error:
        return [("error", f"The configuration could not be copied to {target} before it was changed: {error}")]
    return [("error", f"The configuration could not be copied before it was changed: {target} exists already")]
