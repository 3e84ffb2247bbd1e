"""Overrides: the environment and the command line beat the file and are written into it (contract: configuration §3).

Names are paths joined by `_` in any case: `HTTP_PORT`, `--http_port`. The same flat names serve `set_configuration`. Whole objects come
through the variables of `layers`. Only this module writes the file after the installation; it leaves a copy in `backup/` first.
"""

import shutil
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

from svc.clock import SYSTEM_CLOCK
from svc.config import layers
from svc.config.build import CONFIG_FILE, Config, build
from svc.config.document import Document, changed, read_document, translated, write_document
from svc.config.settings import BY_NAME, DEVELOPMENT, LEGACY, override_names
from svc.config.values import cast_text


def load(
    root: Path,
    *,
    environ: Mapping[str, str] | None = None,
    options: Mapping[str, str] | None = None,
    dev: bool = False,
    file: Path | None = None,
) -> Config:
    """Read the configuration of a root directory, apply all overrides and write those that last into the file.

    `environ` and `options` are looked at for settings only; `dev` adds the values of development for this run, without writing them.
    Raises ConfigError; then nothing has been written. A copy that cannot be made is a note at `error` and stops nothing.
    """
    root = root.expanduser().absolute()
    file = file or root / CONFIG_FILE
    before = read_document(file)
    singles = single_values(before, environ or {}, options or {})
    if "rootPath" in singles:
        singles["rootPath"] = str(root)  # however it was written when it was looked up
    merged = layers.merge(before, singles, environ or {}, root)
    result = build(merged.document, root, dev=dev, file=file)
    notes = list(result.notes)
    try:
        if merged.document != before:
            if merged.needs_copy:
                notes += _copy_before_writing(file, root)
            write_document(file, merged.document)
        merged.save_state()
    except OSError as error:  # a file system that is read-only: what was given counts for this run
        notes.append(("error", f"The configuration could not be written to {file}: {error.strerror}"))
    if dev:
        development = {name: value for name, value in DEVELOPMENT.items() if name not in singles}
        result = replace(build(changed(merged.document, development), root, dev=True, file=file), development=development)
    return replace(result, notes=tuple(notes))


def reread(config: Config) -> Config:
    """The configuration as the file says now, with the values of development if they hold in this run. Writes nothing.

    For what may change while the server runs: the `logging` sections. Raises ConfigError if the file is not usable.
    """
    assert config.file is not None
    document = changed(read_document(config.file), dict(config.development))
    return replace(build(document, config.root, dev=config.dev, file=config.file), development=config.development)


def single_values(document: Document, environ: Mapping[str, str], options: Mapping[str, str]) -> dict[str, object]:
    """The settings that the environment and the command line name, by dotted name; the command line wins, today's names win."""
    result: dict[str, object] = {}
    for source in (environ, options):
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
    """What setting `name` (today's or a former one) to `value` changes; text is cast to what it stands for. Former ones without
    effect change nothing."""
    if name in BY_NAME:
        return {name: cast_text(value, BY_NAME[name].kind) if isinstance(value, str) else value}
    target = LEGACY[name]
    kind = "bool" if name in ("https_on", "disable_transaction_log") else BY_NAME[target].kind
    return translated(document, name, cast_text(value, kind) if isinstance(value, str) else value)


def _copy_before_writing(file: Path, root: Path) -> list[tuple[str, str]]:
    stamp = datetime.fromtimestamp(SYSTEM_CLOCK.wall(), UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z").replace(":", "-")
    target = root / "backup" / f"{stamp}-{CONFIG_FILE}.bak"
    try:
        target.parent.mkdir(mode=0o700, exist_ok=True)
        shutil.copyfile(file, target)
        target.chmod(0o600)
    except OSError as error:
        return [("error", f"The configuration could not be copied to {target} before it was changed: {error}")]
    return []
