"""Takes over changes of the `logging` sections while the server runs (spec: configuration §1)."""

from svc.config import Config, reread
from svc.errors import ConfigError
from svc.logs.core import Logs

CHECK_SECONDS = 2.0
"""Polling interval of the file; the specification promises five seconds."""


class LoggingWatch:
    """Compares the times and the size of the configuration file; `check()` costs one `stat` as long as nothing has changed."""

    def __init__(self, config: Config, logs: Logs) -> None:
        self._config = config
        self._logs = logs
        self._seen = self._mark()

    def _mark(self) -> tuple[int, ...]:
        if self._config.file is None:
            return ()
        try:
            status = self._config.file.stat()
        except OSError:
            return ()
        return (status.st_mtime_ns, status.st_size, status.st_ino, status.st_ctime_ns)

    def check(self) -> bool:
        """Configure the logs again if the file has changed; to be called every CHECK_SECONDS. Returns whether it did.

        An invalid file changes nothing and is reported by one `error` line.
        """
        mark = self._mark()
        if mark == self._seen or not mark:
            return False
        self._seen = mark
        try:
            config = reread(self._config)
        except ConfigError as error:
            self._logs.logger.error("svc config file validation error:", str(error))
            return False
        self._logs.configure(config, instance=self._logs.instance)
        return True
