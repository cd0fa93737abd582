"""The TLS context and SASL mechanism of a process's connections, made when the first connection is opened.

Certificates are renewed while queries run: a store whose file has changed is read again for the next connection. A file
that is being replaced may be missing or incomplete then, so what was read before stays in use until it can be read.
"""

import logging
import os
import threading
from collections.abc import Callable

from spark_kafka_native._client.security.config import SecurityConfig
from spark_kafka_native._net.channel_security import PLAINTEXT, ChannelSecurity
from spark_kafka_native._net.errors import ConfigError

_Stamp = tuple[int, ...]
"""Time of the last change, size and inode of a file; empty: there is none."""

_log = logging.getLogger(__name__)


class ReloadableSecurity:
    """Threads may share it; a forked child makes its own."""

    def __init__(
        self, config: SecurityConfig, make: Callable[[SecurityConfig, ChannelSecurity | None], ChannelSecurity]
    ) -> None:
        """``make(config, earlier)`` reads the stores (`factory.security_of`). Nothing is read before `current`."""
        self._config = config
        self._make = make
        self._lock = threading.Lock()
        self._made: ChannelSecurity | None = PLAINTEXT if config.security_protocol == "PLAINTEXT" else None
        self._stamps: dict[str, _Stamp] = {}
        self._logged = ""

    def current(self) -> ChannelSecurity:
        """The TLS context and mechanism of the next connection. Raises ConfigError: a store could never be read."""
        files = {
            "ssl.keystore.location": self._config.ssl_keystore_location,
            "ssl.truststore.location": self._config.ssl_truststore_location,
        }
        if self._made is not None and not (self._config.uses_tls and any(files.values())):
            return self._made
        with self._lock:
            stamps = {f"{option}={file}": _stamp(file) for option, file in files.items() if file}
            if self._made is None or stamps != self._stamps:
                self._made = self._read(stamps)
            return self._made

    def _read(self, stamps: dict[str, _Stamp]) -> ChannelSecurity:
        """Read the stores; if that fails, keep the last result, and read again at the next call."""
        try:
            made = self._make(self._config, self._made)
        except ConfigError as error:
            if self._made is None:
                raise
            changed = " and ".join(name for name, stamp in stamps.items() if stamp != self._stamps[name])
            self._log_once(
                f"{changed} has changed and cannot be used ({error}); connections use the certificates that were read "
                "before, and the next connection reads it again"
            )
            return self._made
        self._stamps, self._logged = stamps, ""
        return made

    def _log_once(self, warning: str) -> None:
        """Log a warning unless it equals the last one, because a client may try to connect many times a second."""
        if warning != self._logged:
            self._logged = warning
            _log.warning("%s", warning)


def _stamp(path: str) -> _Stamp:
    try:
        found = os.stat(path)
    except OSError:
        return ()
    return found.st_mtime_ns, found.st_size, found.st_ino
