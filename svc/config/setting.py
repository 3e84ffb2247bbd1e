"""What is declared of a setting, and the fields of the mappings that several sections have."""

from dataclasses import dataclass, replace
from typing import Any

LEVELS = ("trace", "debug", "info", "warn", "error", "fatal", "notify")

LOOPBACK = "127.0.0.1"


@dataclass(frozen=True, slots=True)
class From:
    """A default that is the value of another setting, or a path below it."""

    name: str
    below: str = ""


@dataclass(frozen=True, slots=True)
class Setting:
    """One setting. `kind` names the parser in `values.PARSERS`; `default` is written as in the file (`"1d"`, a path below the root)."""

    name: str
    kind: str
    default: object
    sentence: str
    unit: str = ""
    null: bool = False
    """Null is a value of its own (a port that is not opened), not a way to write "unset"."""
    low: float | None = None
    """As `high`, in the unit that a number has in the file."""
    high: float | None = None
    choices: tuple[str, ...] = ()
    fields: tuple["Setting", ...] = ()

    def within(self, section: str) -> "Setting":
        """The same with the section in front of its name."""
        return replace(self, name=f"{section}.{self.name}")


def setting(
    kind: str,
    default: object,
    sentence: str,
    unit: str = "",
    *,
    null: bool = False,
    low: float | None = None,
    high: float | None = None,
    choices: tuple[str, ...] = (),
    fields: tuple[Setting, ...] = (),
    name: str = "",
) -> Any:
    """Declare an attribute of a section (`sections`). `name`: in the file, where it does not follow from that of the attribute. The rest: see `Setting`."""
    return Setting(name, kind, default, sentence, unit, null, low, high, choices, fields)


LOGGING_FIELDS = (
    Setting("level", "level", From("logging.level"), "Threshold of this log.", choices=LEVELS),
    Setting("path", "path", From("logging.path"), "The log file; wins over `root`."),
    Setting("root", "path", From("logging.root"), "Directory of the log file."),
    Setting("tag", "string", None, "A tag for each line."),
    Setting("stdStreams", "bool", From("logging.stdStreams"), "Also to the standard streams."),
    Setting("rotation.enabled", "bool", From("logging.rotation.enabled"), "Rotation of this file."),
    Setting("rotation.compress", "bool", From("logging.rotation.compress"), "Compress rotated files."),
    Setting("rotation.interval", "rotation interval", From("logging.rotation.interval"), "Rotate at this age."),
    Setting("rotation.maxSize", "rotation size", From("logging.rotation.maxSize"), "Rotate beyond this size."),
    Setting("rotation.path", "path", From("logging.rotation.path"), "Directory of rotated files."),
    Setting("rotation.retention", "duration", From("logging.rotation.retention"), "Rotated files older than this are deleted."),
)
"""Fields of the `logging` section of a subsystem or component; unset ones are taken from the main `logging` section."""

ACCESS_LOG_FIELDS = (
    *LOGGING_FIELDS,
    Setting("timing", "bool", True, "Print the duration of each request."),
    Setting("headers", "bool", False, "Print the request headers, except `authorization` and `cookie`."),
    Setting("id", "bool", True, "Print a running number."),
)

_FAILURE_MODES = ("fail-closed", "fail-open")

VERIFICATION_FIELDS = (
    Setting("failureMode", "choice", "fail-closed", "Whether a client is refused when no answer can be obtained.", choices=_FAILURE_MODES),
    Setting("crl.enabled", "bool", True, "Look into revocation lists."),
    Setting("crl.timeout", "duration", 10_000, "To fetch a list.", "ms", low=0),
    Setting("crl.cacheTtl", "duration", 86_400_000, "How long a list is used before it is fetched again.", "ms", low=0),
    Setting(
        "crl.gracePeriod", "duration", 86_400_000, "How long a list is used beyond its end when no newer one can be fetched.", "ms", low=0
    ),
    Setting("crl.failureMode", "choice", None, "The same for lists alone.", choices=_FAILURE_MODES, null=True),
    Setting("ocsp.enabled", "bool", True, "Ask the authority about certificates that no list covers."),
    Setting("ocsp.timeout", "duration", 5000, "To get an answer.", "ms", low=0),
    Setting("ocsp.cacheTtl", "duration", 3_600_000, "How long an answer is remembered.", "ms", low=0),
    Setting("ocsp.errorCacheTtl", "duration", 300_000, "How long a missing answer is remembered.", "ms", low=0),
    Setting("ocsp.failureMode", "choice", None, "The same for answers alone.", choices=_FAILURE_MODES, null=True),
)
"""Fields of `certificateVerification`."""

MTLS_FIELDS = (
    Setting("user", "string", None, "Name of the user that every client with a valid certificate is.", null=True),
    Setting("required", "bool", False, "Refuse the handshake without a valid client certificate."),
    Setting(
        "certificateVerification",
        "switch",
        False,
        "Check whether client certificates are revoked, by lists (CRL), then by asking (OCSP).",
        fields=VERIFICATION_FIELDS,
    ),
)
