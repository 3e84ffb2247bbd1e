"""The log: levels, line format, files with rotation, standard streams (spec: configuration §5).

    logs = Logs.from_config(config)
    log = logs.get_logger("tls")       # `logs.logger` is the one without a tag
    log.warn("Transaction open for", 5.2, "s")
    log.error("Unexpected", exception) # exceptions print their traceback, mappings and lists as JSON

A disabled level costs a call and one comparison; code with expensive arguments should check `log.is_enabled("debug")` first. There is no
global log: code that logs is given a Logger, or uses the standard library's `logging.getLogger("svc.store")`, which `capture_logging` redirects.

The server calls `logs.configure(config)` again when the `logging` section has changed, sets `logs.on_pending` so that lines are written
within a second instead of at once, calls `logs.maintain()` every minute (rotation), `logs.reopen()` on SIGHUP and `logs.close()` last.

Modules: `lines` (text of a line), `files` (one file: append, rotate, expire), `core` (Logger, SectionLog, Logs), `access` (HTTP access log),
`watch` (changes while the server runs), `capture` (standard library logging, what applications print), `redact` (bodies of operations
without their secrets), `reading` (the entries of a file).
"""

from svc.logs.access import AccessLog
from svc.logs.capture import capture_logging, capture_output, component
from svc.logs.core import Logger, Logs
from svc.logs.watch import CHECK_SECONDS, LoggingWatch

__all__ = ["CHECK_SECONDS", "AccessLog", "Logger", "LoggingWatch", "Logs", "capture_logging", "capture_output", "component"]
