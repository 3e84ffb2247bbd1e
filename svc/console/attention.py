"""What on this server needs attention, and what to do about it (spec: console §3). Pure functions of what operations have answered.

`facts` has the answers by the name of their operation; what the caller may not ask is not there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from svc.pages.cells import shortened

FREE = 0.1  # share of a volume below which it is nearly full
BACKUP_DAYS = 7
CERTIFICATE_DAYS = 30
LAG_MS = 60_000
MOST = 5  # of one kind that are named
_TEXT = 400
_DAY_MS = 86_400_000

Facts = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Advice:
    """`text`: what is the matter. `remedy`: what to do. `place`: of the console where it is done, "" elsewhere."""

    text: str
    remedy: str
    place: str = ""


def attention(facts: Facts, now_ms: float) -> list[Advice]:
    """The gravest first."""
    return [advice for find in _FINDERS for advice in find(facts, now_ms)]


def _few(items: Sequence[Any], advice: Callable[[Any], Advice], more: str) -> Iterator[Advice]:
    for item in items[:MOST]:
        yield advice(item)
    if len(items) > MOST:
        yield Advice(f"{len(items) - MOST} more {more}.", "", advice(items[0]).place)


def _stopped(facts: Facts, now_ms: float) -> Iterator[Advice]:
    for name in facts.get("get_status", {}).get("stoppedDatabases", ()):
        yield Advice(
            f"The database {_cut(name)} is stopped: a write to the disk has failed.",
            "See the log, make room on the disk, and restart the server.",
            "instances",
        )


def _password(facts: Facts, now_ms: float) -> Iterator[Advice]:
    file = facts.get("password_file")
    if file:
        yield Advice(
            f"The first password is still in the file {_cut(file)}.", "Change the password of the user; then the file is removed.", "users"
        )


def _applications(facts: Facts, now_ms: float) -> Iterator[Advice]:
    faulty = [each for each in facts.get("get_status", {}).get("applications", ()) if each["errors"] or each["warnings"]]

    def advice(each: Mapping[str, Any]) -> Advice:
        kind = "a fault" if each["errors"] else "a warning"
        return Advice(
            f"The application {_cut(each['name'])} has {kind}: {_cut('; '.join((*each['errors'], *each['warnings'])))}",
            "Correct its files; they are loaded again at once, or at a restart.",
            "applications",
        )

    yield from _few(faulty, advice, "applications have faults or warnings")
    known = {each["name"] for each in facts.get("get_status", {}).get("applications", ())}
    entries = facts.get("get_components", {}).get("entries", ())
    lost = [each for each in entries if each.get("status", {}).get("status") == "error" and each["name"] not in known]
    yield from _few(
        lost,
        lambda each: Advice(
            f"The application {_cut(each['name'])} is not loaded: {_cut(each['status'].get('message', ''))}",
            "Correct its files and restart.",
            "applications",
        ),
        "applications are not loaded",
    )


def _volumes(facts: Facts, now_ms: float) -> Iterator[Advice]:
    for each in facts.get("system_information", {}).get("disk", {}).get("size", ()):
        if each["size"] and each["available"] < each["size"] * FREE:
            yield Advice(
                f"The volume {_cut(each['mount'])} is nearly full: {each['available'] / each['size']:.1%} of {each['size'] >> 20:,} MiB can be used.",
                "Remove old backups, exports and audit logs, or enlarge the volume.",
                "backups",
            )


def _instances(facts: Facts, now_ms: float) -> Iterator[Advice]:
    status = facts.get("get_status", {})
    for each in status.get("instances", ()):
        if each.get("error"):
            yield Advice(
                f"Instance {each['number']} does not answer: {_cut(each['error'])}",
                "Look at the log; restart the server if it stays so.",
                "instances",
            )
    if any(each["id"] == "availability" and each["status"] == "Unavailable" for each in status.get("systemStatus", ())):
        yield Advice(
            "This node is set unavailable: load balancers send it no requests.", "Set it available when its work is done.", "instances"
        )
    if status.get("restartFailed"):
        yield Advice(f"The last restart was given up: {_cut(status['restartFailed'])}", "Remove the reason and restart.", "instances")
    if status.get("restartRequired"):
        reasons = ", ".join(status.get("restartReasons", ()))
        yield Advice(f"Some changes take effect at a restart: {_cut(reasons)}", "Restart the server.", "instances")
    if status.get("slowStart"):
        yield Advice(_cut(status["slowStart"]), "Run that command once.")
    for each in status.get("heldLoop", {}).get("handlers", ())[:1]:
        code = f"{each['function']} of the application {each['application']}"
        yield Advice(
            f"{_cut(code)} has kept all requests waiting, {each['count']} times, at most for {each['longestMs']} ms.",
            "Make it asynchronous, or call it on a thread.",
            "applications",
        )


def _databases(facts: Facts, now_ms: float) -> Iterator[Advice]:
    found: list[Advice] = []
    for database, tables in facts.get("describe_all", {}).items():
        for name, table in tables.items():
            named = f"{_cut(database)}.{_cut(name)}"
            if table.get("building"):
                found.append(
                    Advice(
                        f"Indexes of {named} are being built: {_cut(', '.join(table['building']))}",
                        "Searches by them are slower until then.",
                        "databases",
                    )
                )
            if table.get("not_unique_yet"):
                found.append(
                    Advice(
                        f"Values of {named} are still compared: {_cut(', '.join(table['not_unique_yet']))} are not unique yet.",
                        "Wait.",
                        "databases",
                    )
                )
            if table.get("moving"):
                found.append(Advice(f"Values of {named} are moving to new names of attributes.", "Wait.", "databases"))
            if len(found) > MOST:
                break
    yield from found[:MOST]


def _backups(facts: Facts, now_ms: float) -> Iterator[Advice]:
    late = []
    for database, backups in facts.get("list_backups", {}).items():
        newest = max((each["timestamp"] for each in backups), default=None)
        if newest is None or now_ms - newest * 1000 > BACKUP_DAYS * _DAY_MS:
            late.append((database, newest))

    def advice(each: tuple[str, int | None]) -> Advice:
        when = "has no backup" if each[1] is None else f"was last backed up on {datetime.fromtimestamp(each[1], UTC):%d %b %Y}"
        return Advice(f"The database {_cut(each[0])} {when}.", "Create one, or schedule create_backup.", "backups")

    yield from _few(late, advice, f"databases have no backup of the last {BACKUP_DAYS} days")


def _jobs(facts: Facts, now_ms: float) -> Iterator[Advice]:
    failed = [each for each in facts.get("search_jobs_by_start_date", ()) if each.get("status") == "ERROR"]
    failed.sort(key=lambda each: each.get("created_datetime") or 0, reverse=True)
    yield from _few(
        failed,
        lambda each: Advice(
            f"The job {_cut(str(each.get('type')))} has failed: {_cut(str(each.get('message')))}",
            "Remove the reason and start it again.",
            "jobs",
        ),
        "jobs have failed in the last day",
    )
    runs = [each for each in facts.get("list_scheduled_jobs", ()) if each.get("status") in ("failed", "interrupted")]

    def advice(each: Mapping[str, Any]) -> Advice:
        name = _cut(f"{each['job']} of {each['application']}")
        how = "has failed" if each["status"] == "failed" else "was interrupted"
        return Advice(
            f"The scheduled job {name} {how}: {_cut(str(each.get('error') or ''))}", "See its error, and run it again.", "scheduler"
        )

    yield from _few(runs, advice, "scheduled jobs have failed")


def _mails(facts: Facts, now_ms: float) -> Iterator[Advice]:
    mails = facts.get("list_mails", ())
    if mails:
        were = "1 mail was" if len(mails) == 1 else f"{len(mails)} mails were"
        last = f"{mails[0].get('to')}: {mails[0].get('error')}"
        yield Advice(
            f"{were} given up, the newest to {_cut(last)}",
            "Correct the settings of mail or the address, and run retry_mails.",
            "operations",
        )


def _certificates(facts: Facts, now_ms: float) -> Iterator[Advice]:
    soon = []
    for each in facts.get("list_certificates", ()):
        ends = _maybe_date(each.get("details", {}).get("valid_to"))
        if ends is not None and ends * 1000 - now_ms < CERTIFICATE_DAYS * _DAY_MS:
            soon.append((ends, each["name"]))
    soon.sort()

    def advice(each: tuple[float, str]) -> Advice:
        verb = "has expired" if each[0] * 1000 < now_ms else "expires"
        return Advice(
            f"The certificate {_cut(each[1])} {verb} on {datetime.fromtimestamp(each[0], UTC):%d %b %Y}.",
            "Put a new one in its place.",
            "certificates",
        )

    yield from _few(soon, advice, "certificates expire soon")


def _maybe_date(text: Any) -> float | None:
    try:
        return datetime.strptime(str(text), "%b %d %H:%M:%S %Y GMT").replace(tzinfo=UTC).timestamp()
    except (ValueError, OverflowError):
        return None


def _replication(facts: Facts, now_ms: float) -> Iterator[Advice]:
    status = facts.get("cluster_status", {})
    if not status.get("is_enabled"):
        return
    found: list[Advice] = []
    for each in status["connections"]:
        if not each.get("connected"):
            found.append(
                Advice(
                    f"The node {_cut(each['name'])} is not connected: {_cut(str(each.get('reason') or ''))}",
                    "See whether it runs and can be reached.",
                    "cluster",
                )
            )
            continue
        for socket in each.get("database_sockets", ()):
            lag = (socket.get("lag") or {}).get("ms") or 0
            named = f"{_cut(socket['database'])} from {_cut(each['name'])}"
            if lag > LAG_MS:
                found.append(
                    Advice(
                        f"Replication of {named} is behind by {lag / 1000:,.0f} s.",
                        "See the load of this node and of the network.",
                        "cluster",
                    )
                )
            if socket.get("reason"):
                found.append(Advice(f"Replication of {named} stands still: {_cut(str(socket['reason']))}", "See the log.", "cluster"))
    yield from _few(found, lambda each: each, "faults of replication")


def _cut(text: str) -> str:
    return shortened(text, _TEXT)


_FINDERS = (
    _stopped, _instances, _volumes, _applications, _replication, _databases, _jobs, _backups, _mails, _certificates, _password,
)  # fmt: skip
