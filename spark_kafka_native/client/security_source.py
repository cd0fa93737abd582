"""What connections of one process are protected with, made when the first is opened.

Certificates are renewed while queries run: a store whose file has changed is read again for the next connection.
"""

import os
import threading

from spark_kafka_native.client.security_config import SecurityConfig
from spark_kafka_native.net.security import PLAINTEXT, Security


class SecuritySource:
    """Threads may share it; a forked child makes its own."""

    def __init__(self, config: SecurityConfig) -> None:
        """Reads nothing yet."""
        self._config = config
        self._lock = threading.Lock()
        self._made: Security | None = PLAINTEXT if config.security_protocol == "PLAINTEXT" else None
        self._stamps: tuple[tuple[int, ...], ...] = ()

    def current(self) -> Security:
        """What the next connection is protected with. Raises ConfigError: a store cannot be read."""
        files = [self._config.ssl_keystore_location, self._config.ssl_truststore_location]
        if self._made is not None and not (self._config.uses_tls and any(files)):
            return self._made
        with self._lock:
            stamps = tuple(_stamp(file) for file in files if file)
            if self._made is None or stamps != self._stamps:
                from spark_kafka_native.client.security import security_of  # noqa: PLC0415 -- a tenth of a worker's start

                self._made = security_of(self._config, self._made)
                self._stamps = stamps
            return self._made


def _stamp(path: str) -> tuple[int, ...]:
    try:
        found = os.stat(path)
    except OSError:
        return ()
    return found.st_mtime_ns, found.st_size, found.st_ino
