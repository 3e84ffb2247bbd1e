"""The kinds of entries that a config.yaml may have (spec: configuration §9.1)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import Any, cast

from svc.apps.config_file import ALIASES
from svc.apps.entry import Loader
from svc.config.origins import hint, nearest


@dataclass(frozen=True, slots=True)
class Kind:
    """`loader`: module and function in this package; the first entry of the kind imports them. `phase`: entries are loaded, and started, by phase, and in
    the order of the file within one. `is_code`: it has modules of the application, so all such entries are loaded together."""

    loader: str
    phase: int
    is_code: bool = False

    @property
    def load(self) -> Loader:
        module, _, name = self.loader.partition(":")
        return cast(Loader, getattr(import_module(f"svc.apps.{module}"), name))


ENVIRONMENT, SCHEMA, ROLES, DATA, CODE, FILES = range(6)

KINDS: Mapping[str, Kind] = {
    "loadEnv": Kind("env_entry:load_env", ENVIRONMENT),
    "graphqlSchema": Kind("schema_entry:load_schema", SCHEMA),
    "roles": Kind("roles_entry:load_roles", ROLES),
    "dataLoader": Kind("data_entry:load_data", DATA),
    "resources": Kind("resources_entry:load_resources", CODE, is_code=True),
    "scheduler": Kind("scheduler_entry:load_scheduler", CODE, is_code=True),
    "accounts": Kind("accounts_entry:load_accounts", CODE, is_code=True),
    "static": Kind("static_entry:load_static", FILES),
    "frameworkRoutes": Kind("routes_entry:load_routes", CODE, is_code=True),
    "graphql": Kind("graphql_entry:load_graphql", FILES),
    "pluginModule": Kind("plugins.entry:load_plugin_module", CODE, is_code=True),
    "extensionModule": Kind("plugins.entry:load_plugin_module", CODE, is_code=True),
}

PLUGIN = Kind("plugins.entry:load_plugin", CODE, is_code=True)
"""Of an entry of any other name, with `package`."""

READ_BY_SERVER = frozenset(("rest", "login"))
"""Entries that have no kind: the server looks at them itself."""

UNAVAILABLE = frozenset(("mqtt", "mcp", "models"))
"""Names that are taken, of entries that this version does not have."""


def kind_of(key: str, entry: Any) -> Kind | None:
    """None: the entry is skipped."""
    if not entry:
        return None
    name = ALIASES.get(key, key)
    if name in KINDS or name in READ_BY_SERVER or name in UNAVAILABLE:
        return KINDS.get(name)
    return PLUGIN if isinstance(entry, Mapping) and entry.get("package") is not None else None


def is_built_in(key: str) -> bool:
    """Whether the name is no plugin's."""
    name = ALIASES.get(key, key)
    return name in KINDS or name in READ_BY_SERVER or name in UNAVAILABLE


def remark_on_unknown(key: str) -> str:
    """What is said of an entry that no kind handles."""
    if key in UNAVAILABLE:
        return f"'{key}' is not available in this version of svc and was skipped"
    meant = nearest(key, [*KINDS, *READ_BY_SERVER, *UNAVAILABLE, *ALIASES])
    return f"the entry '{key}' is not known and was skipped{hint(meant) or '; one that a plugin handles has package: NAME'}"
