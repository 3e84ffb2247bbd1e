"""What there is in the console, in the order of its navigation."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Place:
    """`path`: below `/console/`. `module`: has `async def show(page)` for GET, and if it has forms `async def send(page)` for POST; both return a
    Response and raise Problem. `operation`: a caller who may not run it does not see the place; "": everybody who is logged in does."""

    path: str
    title: str
    group: str
    module: str
    operation: str = ""


PLACES: tuple[Place, ...] = (
    Place("", "Overview", "Server", "svc.console.views.overview"),
    Place("charts", "Charts", "Server", "svc.console.views.charts", "get_analytics"),
    Place("instances", "Instances", "Server", "svc.console.views.instances", "get_status"),
    Place("cluster", "Cluster", "Server", "svc.console.views.cluster", "cluster_status"),
    Place("applications", "Applications", "Server", "svc.console.views.applications", "get_components"),
    Place("scheduler", "Scheduler", "Server", "svc.console.views.scheduler", "list_scheduled_jobs"),
    Place("configuration", "Configuration", "Server", "svc.console.views.configuration", "get_configuration"),
    Place("certificates", "Certificates", "Server", "svc.console.views.certificates", "list_certificates"),
    Place("ssh-keys", "SSH keys", "Server", "svc.console.views.ssh_keys", "list_ssh_keys"),
    Place("databases", "Databases", "Data", "svc.console.views.databases", "describe_all"),
    Place("backups", "Backups", "Data", "svc.console.views.backups", "list_backups"),
    Place("jobs", "Jobs", "Data", "svc.console.views.jobs", "get_job"),
    Place("users", "Users", "People", "svc.console.views.users", "list_users"),
    Place("roles", "Roles", "People", "svc.console.views.roles", "list_roles"),
    Place("accounts", "Accounts", "People", "svc.console.views.accounts", "list_accounts"),
    Place("keys", "API keys", "People", "svc.console.views.keys", "list_keys"),
    Place("sessions", "Sessions", "People", "svc.console.views.sessions", "list_sessions"),
    Place("password", "Your password", "People", "svc.console.views.password"),
    Place("logs", "Logs", "Logs", "svc.console.views.logs", "read_log"),
    Place("audit", "Audit log", "Logs", "svc.console.views.audit", "read_audit_log"),
    Place("operations", "Operations", "Ask", "svc.console.views.operations"),
    Place("sql", "SQL", "Ask", "svc.console.views.sql", "sql"),
    Place("graphql", "GraphQL", "Ask", "svc.console.views.graphql"),
)

BY_PATH = {place.path: place for place in PLACES}
