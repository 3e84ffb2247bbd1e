"""A nested document -> the frozen `Config`: former names, types, defaults, rules between settings (spec: configuration §2)."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import combinations
from pathlib import Path
from types import MappingProxyType
from typing import Any

from svc.config.document import Document, migrate_names
from svc.config.origins import Origins, hint, nearest, nearest_setting
from svc.config.relocation import relocated
from svc.config.sections import TLS_FIELDS, Settings, TlsSection, read_section, section_values
from svc.config.setting import LOGGING_FIELDS, From, Setting
from svc.config.settings import BY_NAME, OPTIONAL_SECTIONS, PORTS, SECTIONS, SETTINGS, SWITCHED_OFF, WITHOUT_EFFECT
from svc.config.values import FieldFaults, fault_text, is_given, lookup, parse
from svc.errors import ConfigError

CONFIG_FILE = "svc-config.yaml"


@dataclass(frozen=True)
class Config(Settings):
    """The configuration of one run; the docstring of `svc.config` says how to read it."""

    root: Path
    document: Document
    values: Mapping[str, Any] = field(repr=False)
    components: Mapping[str, Any] = field(default_factory=dict)
    tls_entries: tuple[TlsSection, ...] = ()
    operations_tls_entries: tuple[TlsSection, ...] = ()
    notes: tuple[tuple[str, str], ...] = ()
    file: Path | None = None
    dev: bool = False
    overrides: Mapping[str, object] = field(default_factory=dict)
    """The values that hold in this run and are not in the file, by dotted name: of the environment, the command line and `svc dev`."""

    def __post_init__(self) -> None:
        vars(self).update(section_values(Settings, self.values))
        if not is_replicated(self.document):
            vars(self)["replication"] = None
        if not has_mail(self.document):
            vars(self)["mail"] = None

    @classmethod
    def from_document(cls, document: Document, root: Path, *, dev: bool = False, file: Path | None = None) -> "Config":
        """Check a document and fill in the defaults. Raises ConfigError with a sentence per fault."""
        return build(document, root, dev=dev, file=file)

    @property
    def node_name(self) -> str:
        """Of this node among others (`replication.hostname`), or alone (`node.hostname`)."""
        return self.node.hostname if self.replication is None else self.replication.hostname

    def database_path(self, name: str) -> Path:
        """The directory that holds the directory of this database."""
        return self.values.get(f"databases.{name}.path") or self.values["storage.path"]  # type: ignore[no-any-return]


def is_replicated(document: Document) -> bool:
    """Whether the document switches replication on. `replication.routes` alone does not: `cluster_set_routes` keeps them on any node."""
    section = document.get("replication")
    return isinstance(section, dict) and set(section) != {"routes"}


def has_mail(document: Document) -> bool:
    """Whether the document has a section `mail`."""
    return isinstance(document.get("mail"), dict)


class Diagnostics:
    """Errors and notes about a document: sentences that end with the source of the value, where that is known."""

    def __init__(self, origins: Origins) -> None:
        self.origins = origins
        self.faults: list[str] = []
        self.notes: list[tuple[str, str]] = []

    def fault(self, text: str, *names: str) -> None:
        """`names`: dotted names of the values at fault."""
        self.faults.append(text + self.origins(*names))

    def note(self, level: str, text: str, name: str) -> None:
        self.notes.append((level, text + self.origins(name)))

    def unknown(self, name: str, meant: str = "") -> None:
        """An unknown key. `meant`: the setting that was probably meant, if the caller knows it."""
        self.note("warn", f"Unknown setting '{name}' is ignored{hint(meant or nearest_setting(name))}", name)


def build(document: Document, root: Path, *, dev: bool = False, file: Path | None = None, origins: Origins | None = None) -> Config:
    """Check the document and fill in the defaults. `root` is absolute. Raises ConfigError with a sentence per fault.

    `origins`: where values came from, for the sentences. Nothing is read or created on the disk. Unknown keys, former names and settings
    without effect become notes.
    """
    found = Diagnostics(origins or Origins())
    known, former = migrate_names(relocated(document, root))
    for name, sentence in former:
        found.note("warn", sentence, name)
    components = _take_components(known, found)
    tls_entries = _tls_entries(known, "tls", root, found)
    operations_tls = _tls_entries(known.get("operationsApi"), "tls", root, found, "operationsApi.")
    values: dict[str, Any] = {}
    for setting in SETTINGS:
        if "<" not in setting.name:
            _resolve(setting, known, root, values, found)
    values["rootPath"] = root
    for name in [name for name, switched in components.items() if switched is False and name in SWITCHED_OFF]:
        values.update(SWITCHED_OFF[name])
    _component_logs(components, root, values, found)
    _databases(known.get("databases"), root, values, found)
    _unknown_keys(known, found)
    if lookup(known, ("replication", "routes")) and not is_replicated(known):
        found.note(
            "info", "'replication.routes' alone does not switch replication on; 'replication.hostname' beside it does", "replication.routes"
        )
    if not found.faults:
        _defaults_from_others(values)
        if any(network.prefixlen == 0 for network in values["http.trustedProxies"]):
            found.note(
                "warn", "'http.trustedProxies' has every address: any client may claim another address and host", "http.trustedProxies"
            )
        _check_ports(values, known, found)
        if is_replicated(known):
            from svc.config.replication import replication_faults

            for text, name in replication_faults(values):
                found.fault(text, name)
        if has_mail(known):
            from svc.config.mail import mail_faults, mail_warnings

            for text, name in mail_faults(values, dev=dev):
                found.fault(text, name)
            for text, name in mail_warnings(values):
                found.note("warn", text, name)
    if found.faults:
        raise ConfigError(found.faults)
    entries = tls_entries or (_tls_section({}, root),)
    return Config(
        root,
        document,
        MappingProxyType(values),
        MappingProxyType(components),
        entries,
        operations_tls or entries,
        tuple(found.notes),
        file,
        dev,
    )


def _take_components(document: Document, found: Diagnostics) -> dict[str, Any]:
    """Take the component entries out: unknown names that hold a mapping or a boolean, and booleans that switch a section of ours."""
    components: dict[str, Any] = {}
    for name in list(document):
        value = document[name]
        if isinstance(value, bool) and (name not in BY_NAME or BY_NAME[name].kind == "mapping"):
            components[name] = document.pop(name)
        elif name not in SECTIONS:
            del document[name]
            if isinstance(value, dict):
                components[name] = value
                _maybe_misspelt_section(name, value, found)
            else:
                found.unknown(name)
    return components


def _maybe_misspelt_section(name: str, entry: Document, found: Diagnostics) -> None:
    """A component may have any name, but one similar to a section, with keys of that section, is probably a misspelt section."""
    section = nearest(name, SECTIONS)
    if section and "package" not in entry and any(f"{section}.{key}" in BY_NAME or f"{section}.{key}" in _BRANCHES for key in entry):
        found.note("warn", f"Unknown setting '{name}' is taken for a component{hint(section)}", name)


def _component_logs(components: Mapping[str, Any], root: Path, values: dict[str, Any], found: Diagnostics) -> None:
    """`<component>.logging` is the one field of a component entry that is ours: it is found in the values under this name."""
    for name, entry in components.items():
        if isinstance(entry, dict) and entry.get("logging") is not None:
            row = Setting(f"{name}.logging", "mapping", None, "", fields=LOGGING_FIELDS)
            try:
                values[row.name] = parse(entry["logging"], row, root)
            except ValueError as error:
                _value_faults(row.name, error, found)


def _value_faults(name: str, error: ValueError, found: Diagnostics) -> None:
    """The faults of one value; a mapping may have several, each with its own source."""
    if isinstance(error, FieldFaults):
        for field_name, text in error.faults:
            found.fault(text, field_name)
    else:
        found.fault(fault_text(name, error), name)


def _resolve(setting: Setting, document: Document, root: Path, values: dict[str, Any], found: Diagnostics) -> None:
    """Put the value of one setting, or its default, into `values`."""
    path = setting.name.split(".")
    given = lookup(document, path)
    if given is None and is_given(document, path) and setting.null:
        values[setting.name] = None
    elif given is None:
        values[setting.name] = default_of(setting, root)
    else:
        try:
            values[setting.name] = parse(given, setting, root)
        except ValueError as error:
            _value_faults(setting.name, error, found)


def default_of(setting: Setting, root: Path) -> Any:
    """The default in program units; a `From` stays what it is until all values are known."""
    if isinstance(setting.default, From) or setting.default is None:
        return setting.default
    return parse(setting.default, setting, root)


def _defaults_from_others(values: dict[str, Any]) -> None:
    for name, value in values.items():
        if isinstance(value, From):
            source = values[value.name]
            values[name] = source / value.below if value.below else source


def _tls_section(given: Document, root: Path) -> TlsSection:
    return read_section(TlsSection, {row.name: given.get(row.name, default_of(row, root)) for row in TLS_FIELDS})


def _tls_entries(section: object, key: str, root: Path, found: Diagnostics, prefix: str = "") -> tuple[TlsSection, ...]:
    """`tls` may be a list of mappings: check each. The first one stays in the document, as the plain mapping the rows describe."""
    if not isinstance(section, dict) or section.get(key) is None:
        return ()
    given = section[key]
    entries = given if isinstance(given, list) else [given]
    result = []
    for number, entry in enumerate(entries):
        name = f"{prefix}{key}[{number}]" if isinstance(given, list) else f"{prefix}{key}"
        try:
            result.append(_tls_section(parse(entry, Setting(name, "mapping", None, "", fields=TLS_FIELDS), root), root))
        except ValueError as error:
            _value_faults(name, error, found)
    section[key] = entries[0] if len(result) == len(entries) > 0 else {}  # a fault is reported once
    return tuple(result)


def _databases(section: object, root: Path, values: dict[str, Any], found: Diagnostics) -> None:
    if section is None:
        return
    if not isinstance(section, dict):
        found.fault("'databases' must be a mapping", "databases")
        return
    row = BY_NAME["databases.<db>.path"]
    for name, entry in section.items():
        if not isinstance(entry, dict):
            found.fault(f"'databases.{name}' must be a mapping", f"databases.{name}")
            continue
        for key, value in entry.items():
            full_name = f"databases.{name}.{key}"
            if key == "path" and value is not None:
                try:
                    values[full_name] = parse(value, row, root)
                except ValueError as error:
                    found.fault(fault_text(full_name, error), full_name)
            elif key in ("auditPath", "tables"):
                found.note("warn", f"'{full_name}' has no effect: {WITHOUT_EFFECT['databases.<db>.auditPath']}", full_name)
            elif key != "path":
                meant = nearest(key, ("path", "auditPath", "tables"))
                found.unknown(full_name, f"databases.{name}.{meant}" if meant else "")


def _check_ports(values: Mapping[str, Any], document: Document, found: Diagnostics) -> None:
    """All listening ports differ; null (not opened) and 0 (any free one) may repeat."""
    opened = [name for name in PORTS if values[name] and (name.partition(".")[0] not in OPTIONAL_SECTIONS or is_replicated(document))]
    for one, other in combinations(opened, 2):
        if values[one] == values[other]:
            given = [name for name in (one, other) if is_given(document, name.split("."))]
            found.fault(f"{one} and {other} cannot be the same value", *given)


_BRANCHES = frozenset(".".join(name.split(".")[:length]) for name in BY_NAME for length in range(1, name.count(".") + 1))


def _unknown_keys(document: Document, found: Diagnostics, prefix: str = "") -> None:
    """A `warn` note per unknown key below our sections; a section that is not a mapping is a fault."""
    for key, value in document.items():
        name = f"{prefix}{key}"
        if name in BY_NAME:
            row = BY_NAME[name]
            if row.fields and isinstance(value, dict):
                _unknown_fields(row, value, found, name)
        elif name not in _BRANCHES:
            found.unknown(name)
        elif isinstance(value, dict):
            if name != "databases":
                _unknown_keys(value, found, f"{name}.")
        elif value is not None and name != "databases":
            found.fault(f"'{name}' must be a mapping", name)


def _unknown_fields(row: Setting, value: Document, found: Diagnostics, name: str, prefix: str = "") -> None:
    """Note unknown fields of a mapping; `prefix`: of the fields that are checked, with a dot at its end."""
    fields = [part.name.removeprefix(prefix) for part in row.fields if part.name.startswith(prefix)]
    for key, inner in value.items():
        if key in fields:
            continue
        if any(part.startswith(f"{key}.") for part in fields):
            if isinstance(inner, dict):
                _unknown_fields(row, inner, found, f"{name}.{key}", f"{prefix}{key}.")
            elif inner is not None:
                found.fault(f"'{name}.{key}' must be a mapping", f"{name}.{key}")
            continue
        meant = nearest(key, {part.partition(".")[0] for part in fields})
        found.unknown(f"{name}.{key}", f"{name}.{meant}" if meant else "")
