"""The resource interface: what answers under an address, the same for every protocol (architecture §11)."""

from svc.resources.addressing import addressed
from svc.resources.registry import Match, Registration, Resources, make_registration
from svc.resources.resource import VERBS, CreatedRecords, PlannedQuery, Resource, StoredRecord
from svc.resources.table_resource import TableResource, table_resource
from svc.resources.target import RequestTarget, parse_target

__all__ = [
    "VERBS",
    "CreatedRecords",
    "Match",
    "PlannedQuery",
    "Registration",
    "RequestTarget",
    "Resource",
    "Resources",
    "StoredRecord",
    "TableResource",
    "addressed",
    "make_registration",
    "parse_target",
    "table_resource",
]
