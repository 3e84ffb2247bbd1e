"""The kinds of entries that a config.yaml may have (spec: configuration §9.1)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from svc.apps.data_entry import load_data
from svc.apps.entry import Loader
from svc.apps.env_entry import load_env
from svc.apps.resources_entry import load_resources
from svc.apps.roles_entry import load_roles
from svc.apps.routes_entry import load_routes
from svc.apps.scheduler_entry import load_scheduler
from svc.apps.schema_entry import load_schema
from svc.apps.static_entry import load_static


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
}

READ_BY_SERVER = frozenset(("rest", "login"))
"""Entries that have no kind: the server looks at them itself."""
