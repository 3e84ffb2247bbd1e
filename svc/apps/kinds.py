"""The kinds of entries that a config.yaml may have (spec: configuration §9.1)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from svc.apps.config_file import ALIASES
from svc.apps.data_entry import load_data
from svc.apps.entry import Loader
from svc.apps.env_entry import load_env
from svc.apps.graphql_entry import load_graphql
from svc.apps.plugins import load_plugin, load_plugin_module
from svc.apps.resources_entry import load_resources
from svc.apps.roles_entry import load_roles
from svc.apps.routes_entry import load_routes
from svc.apps.scheduler_entry import load_scheduler
from svc.apps.schema_entry import load_schema
from svc.apps.static_entry import load_static
from svc.config.origins import hint, nearest


@dataclass(frozen=True, slots=True)
class Kind:
    """`phase`: entries are loaded, and started, by phase, and in the order of the file within one. `is_code`: it has modules of the application, so all
    such entries are loaded together."""

    load: Loader
    phase: int
    is_code: bool = False


ENVIRONMENT, SCHEMA, ROLES, DATA, CODE, FILES = range(6)

KINDS: Mapping[str, Kind] = {
    "loadEnv": Kind(load_env, ENVIRONMENT),
    "graphqlSchema": Kind(load_schema, SCHEMA),
    "roles": Kind(load_roles, ROLES),
    "dataLoader": Kind(load_data, DATA),
    "resources": Kind(load_resources, CODE, is_code=True),
    "scheduler": Kind(load_scheduler, CODE, is_code=True),
    "static": Kind(load_static, FILES),
    "frameworkRoutes": Kind(load_routes, CODE, is_code=True),
    "graphql": Kind(load_graphql, FILES),
    "pluginModule": Kind(load_plugin_module, CODE, is_code=True),
    "extensionModule": Kind(load_plugin_module, CODE, is_code=True),
}

PLUGIN = Kind(load_plugin, CODE, is_code=True)
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
