"""What `system_information` tells of the machine and of our processes (spec: operations §9).

Names and units are those that clients of such servers know: sizes in bytes, but for processes in KiB; speeds of the CPU in GHz, of networks in
Mbit/s; shares in percent. What a platform does not tell is left out, so a client has to look whether a key is there; nothing here raises.

All of it asks the operating system, and some of it waits for disks: for helper threads only, and at most every few seconds.
"""

from __future__ import annotations

import os
import platform
import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import psutil

from svc.analytics import process
from svc.clock import Clock
from svc.interpreter import running_interpreter
from svc.logs.redact import HIDDEN, is_secret

CACHE_SECONDS = 3.0
MAX_CONNECTIONS = 1000  # of the list in `network`
MAX_ARGUMENT = 300  # characters of one argument of a process

_GIGA = 1000  # MHz in a GHz
_KIB = 1024
_UNKNOWN = (OSError, psutil.Error, AttributeError, NotImplementedError, ValueError, RuntimeError, KeyError, IndexError)
"""What psutil and the files of /proc raise where they do not have something."""


def _known(**values: Any) -> dict[str, Any]:
    """Without what is not known."""
    return {name: value for name, value in values.items() if value is not None}


def _maybe(function: Callable[[], Any]) -> Any:
    try:
        return function()
    except _UNKNOWN:
        return None


@dataclass
class Machine:
    """Collects the parts; remembers each for CACHE_SECONDS, and what loads are measured against. May be used by several threads.

    `pids`: of the processes of this node.
    """

    clock: Clock
    root: Path
    with_disk: bool = True
    with_network: bool = True
    pids: Callable[[], Iterable[int]] = lambda: (os.getpid(),)
    _found: dict[str, tuple[float, Any]] = field(default_factory=dict)
    _cpu_times: list[Any] = field(default_factory=list)
    _processes: dict[int, psutil.Process] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def collect(self, names: Iterable[str]) -> dict[str, Any]:
        """The parts of these names, of PARTS; others are ignored."""
        with self._lock:
            return {name: self._part(name) for name in names if name in PARTS}

    def _part(self, name: str) -> Any:
        now = self.clock.monotonic()
        known = self._found.get(name) if name != "time" else None
        if known is None or not 0 <= now - known[0] < CACHE_SECONDS:
            try:
                value = PARTS[name](self)
            except _UNKNOWN:
                value = {}
            known = self._found[name] = (now, value)
        return known[1]

    # --- the parts -------------------------------------------------------------------------------------------------------------------

    def system(self) -> dict[str, Any]:
        release = _maybe(platform.freedesktop_os_release) or {}
        system = platform.system()
        if system == "Darwin":
            release = {"NAME": "macOS", "VERSION_ID": platform.mac_ver()[0]}
        name = platform.node()
        interpreter = running_interpreter()
        return _known(
            platform=system.lower() or None,
            distro=release.get("NAME"),
            release=release.get("VERSION_ID"),
            codename=release.get("VERSION_CODENAME"),
            kernel=platform.release() or None,
            arch=platform.machine() or None,
            hostname=name or None,
            fqdn=_full_name(name),
            python_version=interpreter.version,
            python_compiler=interpreter.compiler,
            python_profile_guided=interpreter.profile_guided,
        )

    def time(self) -> dict[str, Any]:
        wall = self.clock.wall()
        local = datetime.fromtimestamp(wall, UTC).astimezone()
        booted = _maybe(psutil.boot_time)
        return _known(
            current=int(wall * 1000),
            uptime=None if booted is None else max(0, round(wall - booted)),
            timezone=f"GMT{local:%z}",
            timezoneName=_zone_name() or local.tzname(),
        )

    def cpu(self) -> dict[str, Any]:
        models = _cpu_models()
        speeds = _maybe(lambda: psutil.cpu_freq(percpu=True)) or []
        speed = _maybe(psutil.cpu_freq)
        vendor, brand = (models[0] if models else (None, _maybe(platform.processor) or None))[:2]
        cores = [round(each.current / _GIGA, 2) for each in speeds]
        return _known(
            manufacturer=_VENDORS.get(vendor or "", vendor),
            brand=brand,
            vendor=vendor,
            speed=None if speed is None else round(speed.current / _GIGA, 2),
            cores=psutil.cpu_count(),
            physicalCores=psutil.cpu_count(logical=False),
            processors=len({model[2] for model in models}) or 1,
            cpu_speed=_known(
                min=min(cores), max=max(cores), avg=round(sum(cores) / len(cores), 2), cores=cores
            ) if cores else None,
            current_load=_maybe(self._cpu_load),
        )  # fmt: skip

    def _cpu_load(self) -> dict[str, Any]:
        """Since the last call; at the first one, since the machine started."""
        now = psutil.cpu_times(percpu=True)
        before = self._cpu_times if len(self._cpu_times) == len(now) else [None] * len(now)
        self._cpu_times = now
        cpus = [_shares(one, other) for one, other in zip(before, now, strict=True)]
        mean = {name: round(sum(cpu[name] for cpu in cpus) / len(cpus), 2) for name in cpus[0]}
        load = _maybe(os.getloadavg)
        return {
            **_known(avgLoad=None if load is None else round(load[0] / len(cpus), 2)),
            "currentLoad": mean["load"],
            **{f"currentL{name[1:]}": value for name, value in mean.items() if name != "load"},
            "cpus": cpus,
        }

    def memory(self) -> dict[str, Any]:
        found = psutil.virtual_memory()
        swap = _maybe(psutil.swap_memory)
        return {
            "total": found.total,
            "free": found.free,
            "used": found.used,
            **_known(active=getattr(found, "active", None)),
            "available": found.available,
            **({} if swap is None else {"swaptotal": swap.total, "swapused": swap.used, "swapfree": swap.free}),
            **process.memory(),
        }

    def disk(self) -> dict[str, Any]:
        if not self.with_disk:
            return {}
        found: dict[str, Any] = {}
        counters = _maybe(psutil.disk_io_counters)
        if counters is not None:
            reads, writes = counters.read_count, counters.write_count
            found["io"] = {"rIO": reads, "wIO": writes, "tIO": reads + writes}
            found["read_write"] = {
                "rx": counters.read_bytes,
                "wx": counters.write_bytes,
                "tx": counters.read_bytes + counters.write_bytes,
            }
        found["size"] = list(self._volumes())
        return found

    def _volumes(self) -> Iterable[dict[str, Any]]:
        """The volumes on devices, and the one that holds our root: that may be a network's, but then we use it anyway."""
        mounts = {part.mountpoint: (part.device, part.fstype) for part in _maybe(psutil.disk_partitions) or ()}
        own = _maybe(lambda: _mount_point(self.root))
        if own is not None:
            everything = _maybe(lambda: psutil.disk_partitions(all=True)) or ()
            mounts.setdefault(own, next(((part.device, part.fstype) for part in everything if part.mountpoint == own), ("", "")))
        for mount, (device, kind) in mounts.items():
            usage = None if os.path.isfile(mount) else _maybe(lambda mount=mount: psutil.disk_usage(mount))  # type: ignore[misc]
            if usage is not None:
                yield {
                    "fs": device, "type": kind, "size": usage.total, "used": usage.used, "available": usage.free, "use": usage.percent,
                    "mount": mount,
                }  # fmt: skip

    def network(self) -> dict[str, Any]:
        if not self.with_network:
            return {}
        states = _maybe(psutil.net_if_stats) or {}
        interfaces = [_interface(name, addresses, states.get(name)) for name, addresses in (_maybe(psutil.net_if_addrs) or {}).items()]
        return {
            **_known(default_interface=_maybe(_default_interface)),
            "latency": {},
            "interfaces": interfaces,
            "stats": [
                {
                    "iface": name, "operstate": _operstate(states.get(name)), "rx_bytes": io.bytes_recv, "rx_dropped": io.dropin,
                    "rx_errors": io.errin, "tx_bytes": io.bytes_sent, "tx_dropped": io.dropout, "tx_errors": io.errout,
                }
                for name, io in (_maybe(lambda: psutil.net_io_counters(pernic=True)) or {}).items()
            ],
            "connections": _maybe(_connections) or [],
        }  # fmt: skip

    def svc_processes(self) -> dict[str, Any]:
        pids = list(self.pids())
        self._processes = {pid: self._processes.get(pid) or _maybe(lambda pid=pid: psutil.Process(pid)) for pid in pids}  # type: ignore[misc]
        return {"core": [found for one in self._processes.values() if one is not None and (found := _maybe(lambda one=one: _process(one)))]}  # type: ignore[misc]


PARTS: dict[str, Callable[[Machine], Any]] = {
    "system": Machine.system,
    "time": Machine.time,
    "cpu": Machine.cpu,
    "memory": Machine.memory,
    "disk": Machine.disk,
    "network": Machine.network,
    "svc_processes": Machine.svc_processes,
}


# --- system -----------------------------------------------------------------------------------------------------------------------------

_VENDORS = {"GenuineIntel": "Intel", "AuthenticAMD": "AMD"}


def _full_name(name: str) -> str | None:
    """The host's name with its domain, if the machine knows it by itself: no name server is asked."""
    if "." in name or not name:
        return name or None
    lines = (_maybe(lambda: Path("/etc/hosts").read_text("utf-8", "replace")) or "").splitlines()
    for line in lines:
        names = line.partition("#")[0].split()[1:]
        if name in names:
            return next((each for each in names if each.startswith(f"{name}.")), name)
    return name


def _zone_name() -> str | None:
    """As `Europe/Berlin`."""
    if os.environ.get("TZ"):
        return os.environ["TZ"].removeprefix(":")
    target = _maybe(lambda: os.readlink("/etc/localtime"))
    return target.partition("zoneinfo/")[2] or None if isinstance(target, str) else None


def _cpu_models() -> list[tuple[str | None, str | None, str]]:
    """(vendor, brand, package) of each logical CPU, where /proc tells."""
    text = _maybe(lambda: Path("/proc/cpuinfo").read_text("utf-8", "replace")) or ""
    found = []
    for block in text.strip().split("\n\n"):
        fields = {name.strip(): value.strip() for name, colon, value in (line.partition(":") for line in block.splitlines()) if colon}
        if "processor" in fields:
            found.append((fields.get("vendor_id"), fields.get("model name"), fields.get("physical id", "0")))
    return found


_SHARES = {
    "loadUser": ("user",),
    "loadSystem": ("system",),
    "loadNice": ("nice",),
    "loadIdle": ("idle", "iowait"),
    "loadIrq": ("irq", "softirq"),
}
_COUNTED_ELSEWHERE = ("guest", "guest_nice")  # they are part of user and nice


def _shares(before: Any, now: Any) -> dict[str, float]:
    """Percent of the time between two states of a CPU."""
    spent = {name: max(0.0, getattr(now, name) - (0.0 if before is None else getattr(before, name))) for name in now._fields}
    total = sum(value for name, value in spent.items() if name not in _COUNTED_ELSEWHERE)
    shares = {
        name: round(100 * sum(spent.get(part, 0.0) for part in parts) / total, 2) if total else 0.0 for name, parts in _SHARES.items()
    }
    return {"load": round(100 - shares["loadIdle"], 2) if total else 0.0, **shares}


def _mount_point(path: Path) -> str:
    path = path.resolve()
    while not os.path.ismount(path):
        path = path.parent
    return str(path)


# --- network ----------------------------------------------------------------------------------------------------------------------------


def _interface(name: str, addresses: Iterable[Any], state: Any) -> dict[str, Any]:
    by_family: dict[str, str] = {}
    for address in addresses:
        by_family.setdefault(address.family.name, address.address)
    is_loopback = name.startswith("lo")
    is_wireless = os.path.isdir(f"/sys/class/net/{name}/wireless")
    return _known(
        iface=name,
        ip4=by_family.get("AF_INET", ""),
        ip6=by_family.get("AF_INET6", "").partition("%")[0],
        mac=by_family.get("AF_PACKET") or by_family.get("AF_LINK") or "",
        operstate=_operstate(state),
        type="virtual" if is_loopback else "wireless" if is_wireless else "wired",
        speed=state.speed if state is not None and state.speed else None,
    )


def _operstate(state: Any) -> str:
    return "unknown" if state is None else "up" if state.isup else "down"


def _default_interface() -> str | None:
    for line in Path("/proc/net/route").read_text("ascii").splitlines()[1:]:
        fields = line.split()
        if fields[1] == "00000000":
            return fields[0]
    return None


def _connections() -> list[dict[str, Any]]:
    """Of this process: those of others are not ours to tell."""
    found = []
    for each in psutil.Process().net_connections(kind="inet")[:MAX_CONNECTIONS]:
        local, peer = each.laddr or ("", ""), each.raddr or ("", "")
        found.append(
            {
                "protocol": ("tcp" if each.type == 1 else "udp") + ("6" if each.family.name == "AF_INET6" else ""),
                "localAddress": local[0], "localPort": str(local[1]), "peerAddress": peer[0], "peerPort": str(peer[1]),
                "state": each.status, "pid": os.getpid(), "process": "svc",
            }
        )  # fmt: skip
    return found


# --- processes --------------------------------------------------------------------------------------------------------------------------


def _process(one: psutil.Process) -> dict[str, Any]:
    with one.oneshot():
        memory = one.memory_info()
        arguments = one.cmdline()
        return _known(
            pid=one.pid,
            parentPid=one.ppid(),
            name=one.name(),
            cpu=one.cpu_percent(None),
            mem=round(one.memory_percent(), 2),
            memRss=memory.rss // _KIB,
            memVsz=memory.vms // _KIB,
            started=datetime.fromtimestamp(one.create_time(), UTC).isoformat(timespec="seconds").replace("+00:00", "Z"),
            state=one.status(),
            command=os.path.basename(arguments[0]) if arguments else one.name(),
            path=_maybe(one.exe),
            params=" ".join(shown_arguments(arguments[1:])),
            user=_maybe(one.username),
        )


def shown_arguments(arguments: list[str]) -> list[str]:
    """The arguments of a command line without secrets.

    >>> shown_arguments(["run", "--SVC_ADMIN_PASSWORD", "x", "--SVC_ADMIN_PASSWORD=x", "--HTTP_PORT", "80", "password=x"])
    ['run', '--SVC_ADMIN_PASSWORD', '***', '--SVC_ADMIN_PASSWORD=***', '--HTTP_PORT', '80', 'password=***']
    """
    shown: list[str] = []
    hidden = False
    for argument in arguments:
        name, equals, _ = argument.partition("=")
        secret = is_secret(name)
        shown.append(HIDDEN if hidden else f"{name}={HIDDEN}" if equals and secret else argument[:MAX_ARGUMENT])
        hidden = secret and not equals and argument.startswith("-")
    return shown
