"""Application directories: their configuration, schema and registrations (spec: configuration §9.1, §9.2).

applications -> app -> the entries of its config.yaml (kinds): schema_entry, roles_entry, resources_entry ...
                   -> code: the modules of one version of it
"""

from svc.apps.app import App
from svc.apps.applications import Applications
from svc.apps.entry import Runtime
from svc.apps.status import EntryStatus

__all__ = ["App", "Applications", "EntryStatus", "Runtime"]
