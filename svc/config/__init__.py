"""The configuration: `svc-config.yaml`, the environment and the command line become one frozen `Config` (spec: configuration §2-§3).

How to get a value:

- `config.http.port`, `config.operations_api.network.cors_access_list`: typed attributes, the names of the file in Python's spelling, with the
  defaults filled in (`sections`). `config.instances`, `config.components_root`, `config.root`: those without a section.
- `config.values["http.port"]`: the same values by their names in the file, for code that treats all settings alike, and for
  `<component>.logging`.
- `config.components`: `{name: mapping or bool}`, the component entries; `config.document`: the nested document with all overrides, as
  `server.config` and `get_configuration` show it (readers copy it before they change it).
- `config.replication` is None without a `replication` section, or with nothing but `routes` in it; `config.tls_entries`: the `tls` entries
  (always at least one); `config.operations_tls_entries`: those of the operations port; `config.database_path(name)`: the directory that a
  database is in.

Units: durations are **seconds**, sizes **bytes**, paths absolute `Path`s, lists tuples; ports that are not opened are None (0: any free
port, for tests). A `logging` section of a subsystem is None or a dict of the given fields: `{"level": "info", "rotation.maxSize": 1024}`.

How to make one: `load_config(root)` reads the file of a root directory and applies overrides; `Config.from_document({...}, root)` needs no
file (tests). Both raise `ConfigError` with a sentence per fault. `config.notes` holds `(level, sentence)` pairs to be logged at the start.

Modules: `sections` (one class a section, one line a setting), `setting` (what a line says), `settings` (all by name), `values` (parsers by
kind), `document` (YAML, former names), `build` (document -> Config), `overrides` (environment, command line, write-back), `layers` (the
`SVC_..._CONFIG` variables), `reference` (docs/settings.md).
"""

from svc.config.build import Config, build
from svc.config.document import Document
from svc.config.overrides import load_config, reread
from svc.config.sections import Section, TlsSection
from svc.config.setting import Setting
from svc.config.settings import SETTINGS

__all__ = ["SETTINGS", "Config", "Document", "Section", "Setting", "TlsSection", "build", "load_config", "reread"]
