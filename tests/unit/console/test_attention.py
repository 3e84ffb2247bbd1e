"""What needs attention, from what operations answer (spec: console §3)."""

from __future__ import annotations

from typing import Any

import pytest

from svc.console.attention import BACKUP_DAYS, CERTIFICATE_DAYS, MOST, attention

NOW = 1_767_225_600_000.0
DAY = 86_400
_FINE: dict[str, Any] = {
    "get_status": {
        "systemStatus": [{"id": "availability", "status": "Available"}],
        "instances": [{"number": 0, "pid": 5, "uptime": 9}],
        "applications": [{"name": "shop", "directory": "/", "tables": 1, "errors": [], "warnings": []}],
        "restartRequired": False,
    },
    "get_components": {"name": "components", "entries": [{"name": "shop", "status": {"status": "healthy", "message": "fine"}}]},
    "system_information": {
        "disk": {"size": [{"mount": "/", "size": 1000, "available": 500}, {"mount": "/none", "size": 0, "available": 0}]}
    },
    "describe_all": {"data": {"Seat": {"record_count": 5}}},
    "list_backups": {"data": [{"backup_id": 1, "timestamp": NOW / 1000 - DAY, "size": 1, "file_count": 1}]},
    "search_jobs_by_start_date": [{"type": "csv_data_load", "status": "COMPLETE"}],
    "list_scheduled_jobs": [{"job": "a", "application": "b", "status": "succeeded", "error": None}],
    "list_mails": [],
    "list_certificates": [{"name": "c", "details": {"valid_to": "Jan 01 01:00:00 2036 GMT"}}],
    "cluster_status": {"is_enabled": False, "connections": [{"name": "x", "connected": False}]},
}
_SOCKET = {"database": "data", "connected": True, "lag": {"entries": 3, "ms": 61_000}}


def status(**members: Any) -> dict[str, Any]:
    return {"get_status": {**_FINE["get_status"], **members}}


def test_nothing_needs_attention() -> None:
    assert attention(_FINE, NOW) == [] == attention({}, NOW)


@pytest.mark.parametrize(
    ("facts", "wanted", "place"),
    [
        (status(stoppedDatabases=["data"]), "The database data is stopped", "instances"),
        (status(instances=[{"number": 2, "pid": 1, "error": "no answer"}]), "Instance 2 does not answer: no answer", "instances"),
        (status(systemStatus=[{"id": "availability", "status": "Unavailable"}]), "set unavailable", "instances"),
        (status(restartFailed="port in use"), "given up: port in use", "instances"),
        (status(restartRequired=True, restartReasons=["http.port"]), "at a restart: http.port", "instances"),
        (status(slowStart="svc runs without cached bytecode"), "cached bytecode", ""),
        (
            status(heldLoop={"handlers": [{"application": "shop", "function": "slow", "count": 3, "longestMs": 80}]}),
            "slow of the application shop has kept all requests waiting, 3 times",
            "applications",
        ),
        (
            status(applications=[{"name": "shop", "errors": ["bad schema"], "warnings": []}]),
            "The application shop has a fault: bad schema",
            "applications",
        ),
        (
            {"get_components": {"entries": [{"name": "lost", "status": {"status": "error", "message": "no file"}}]}},
            "lost is not loaded: no file",
            "applications",
        ),
        (
            {"system_information": {"disk": {"size": [{"mount": "/db", "size": 1 << 30, "available": 1 << 20}]}}},
            "/db is nearly full",
            "backups",
        ),
        ({"describe_all": {"data": {"Seat": {"building": ["row"]}}}}, "Indexes of data.Seat are being built: row", "databases"),
        ({"describe_all": {"data": {"Seat": {"not_unique_yet": ["row"]}}}}, "row are not unique yet", "databases"),
        ({"describe_all": {"data": {"Seat": {"moving": {"renamed_from": {}}}}}}, "moving to new names", "databases"),
        ({"list_backups": {"data": []}}, "The database data has no backup", "backups"),
        ({"list_backups": {"data": [{"timestamp": NOW / 1000 - (BACKUP_DAYS + 1) * DAY}]}}, "was last backed up on 24 Dec 2025", "backups"),
        (
            {"search_jobs_by_start_date": [{"type": "create_backup", "status": "ERROR", "message": "disk full"}]},
            "The job create_backup has failed: disk full",
            "jobs",
        ),
        (
            {"list_scheduled_jobs": [{"job": "nightly", "application": "shop", "status": "failed", "error": "KeyError"}]},
            "nightly of shop has failed: KeyError",
            "scheduler",
        ),
        ({"list_mails": [{"to": "a@b", "error": "550"}]}, "1 mail was given up, the newest to a@b: 550", "operations"),
        (
            {"list_certificates": [{"name": "c", "details": {"valid_to": "Jan 20 01:00:00 2026 GMT"}}]},
            "c expires on 20 Jan 2026",
            "certificates",
        ),
        (
            {"list_certificates": [{"name": "c", "details": {"valid_to": "Dec 20 01:00:00 2025 GMT"}}]},
            "has expired on 20 Dec",
            "certificates",
        ),
        (
            {"cluster_status": {"is_enabled": True, "connections": [{"name": "x", "connected": False, "reason": "refused"}]}},
            "The node x is not connected: refused",
            "cluster",
        ),
        (
            {"cluster_status": {"is_enabled": True, "connections": [{"name": "x", "connected": True, "database_sockets": [_SOCKET]}]}},
            "Replication of data from x is behind by 61 s",
            "cluster",
        ),
        ({"password_file": "/srv/initial-admin-password"}, "still in the file /srv/initial-admin-password", "users"),
    ],
)
def test_what_is_the_matter_and_what_to_do(facts: dict[str, Any], wanted: str, place: str) -> None:
    [advice] = attention({**_FINE, **facts}, NOW)
    assert wanted in advice.text and advice.remedy and advice.place == place


def test_only_some_of_a_kind_are_named() -> None:
    databases: dict[str, list[Any]] = {f"db{number}": [] for number in range(20)}
    found = attention({"list_backups": databases}, NOW)
    assert len(found) == MOST + 1 and found[-1].text.startswith(f"{20 - MOST} more databases")
    tables = {f"t{number}": {"building": ["a"]} for number in range(100)}
    assert len(attention({"describe_all": {"data": tables}}, NOW)) == MOST


def test_certificates_that_cannot_be_read_are_not_ours_to_judge() -> None:
    assert attention({"list_certificates": [{"name": "c", "details": {"valid_to": "soon"}}, {"name": "d"}]}, NOW) == []
    assert CERTIFICATE_DAYS == 30
