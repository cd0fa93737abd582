"""The configuration of a ZooKeeper server, and whether the server that was started with it serves clients."""

import os
import socket
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final, Self

from broker_embedded._config.addresses import WILDCARD_HOSTS, format_address, parse_port
from broker_embedded._config.settings import SettingError
from broker_embedded._zookeeper_server.properties import check_properties

LOOPBACK: Final = "127.0.0.1"
WORDS: Final = "4lw.commands.whitelist"
_CONF: Final = "conf"
_VERSION: Final = "version-2"
"""The directory of the files in ``dataDir`` and ``dataLogDir``."""
_AUTOCREATE: Final = "datadir.autocreate"
_DEFAULT_WORDS: Final = "ruok,srvr,stat"
_TIMEOUT_S: Final = 5.0
_MAX_LINES: Final = 20
_MAX_LINE_BYTES: Final = 8192


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerConfig:
    """The settings of a server, by the names of ``zoo.cfg``. It listens at 127.0.0.1 unless they say otherwise."""

    settings: Mapping[str, str]

    @classmethod
    def parse(cls, given: Mapping[str, str]) -> Self:
        """Settings of a file. Raises SettingError: as ``check_properties``, or a required one is missing."""
        for required in ("clientPort", "dataDir"):
            if not given.get(required):
                raise SettingError(required, "is required")
        check_properties(given)
        words = given.get(WORDS, _DEFAULT_WORDS)
        if "*" not in words:
            words = f"{words},{_CONF}"  # for `serves`
        return cls(settings={"clientPortAddress": LOOPBACK, **given, WORDS: words})

    @property
    def host(self) -> str:
        """The host to which clients on this machine connect."""
        host = self.settings["clientPortAddress"]
        return LOOPBACK if host in WILDCARD_HOSTS else host

    @property
    def port(self) -> int:
        """The port for clients."""
        return parse_port("clientPort", self.settings["clientPort"])

    @property
    def address(self) -> str:
        """``host:port`` for clients on this machine."""
        return format_address(self.host, self.port)

    def with_port(self, port: int) -> Self:
        """The same settings with another port."""
        return replace(self, settings={**self.settings, "clientPort": str(port)})

    def write(self, path: Path) -> None:
        """Write the file for the server. Raises OSError."""
        import javaproperties  # noqa: PLC0415  # takes 9 ms, and most commands write no file

        path.write_text(javaproperties.dumps(self.settings, timestamp=False), encoding="ascii")

    def check_ports(self) -> None:
        """Raises OSError: another process has a port. Its response to ``serves`` could be that of the same data."""
        for key in ("clientPort", "secureClientPort"):
            if port := parse_port(key, self.settings.get(key, "0")):
                _check_port(key, self.settings.get(f"{key}Address", ""), port)

    def make_directories(self) -> None:
        """Create the directories of the data, as the server does. Raises OSError: it cannot write there."""
        for key in ("dataDir", "dataLogDir"):
            if key in self.settings:
                self._make_directory(key)

    def _make_directory(self, key: str) -> None:
        directory = Path(self.settings[key].strip(), _VERSION)
        try:
            if self.settings.get(_AUTOCREATE, "").strip().lower() != "false":
                directory.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryFile(dir=directory):
                pass
        except OSError as error:
            raise OSError(f"{key}: cannot create files in {directory}: {error.strerror or error}") from error

    def serves(self) -> bool:
        """Whether a server with this data directory serves clients at this address now.

        Another server that has taken the port has another data directory.
        """
        expected = os.path.realpath(Path(self.settings["dataDir"].strip(), _VERSION))
        with suppress(OSError), socket.create_connection((self.host, self.port), timeout=_TIMEOUT_S) as connection:
            connection.sendall(_CONF.encode())
            # Not up to the end of the response: a server that is starting can leave the connection open.
            with connection.makefile("rb") as response:
                for _ in range(_MAX_LINES):
                    key, separator, value = os.fsdecode(response.readline(_MAX_LINE_BYTES)).strip().partition("=")
                    if not separator:
                        return False  # "This ZooKeeper instance is not currently serving requests"
                    if key == "dataDir":
                        return value == expected
        return False


def _check_port(key: str, host: str, port: int) -> None:
    try:
        family, _, _, _, address = socket.getaddrinfo(host or None, port, flags=socket.AI_PASSIVE)[0]
        socket.create_server(address[:2], family=family).close()
    except OSError as error:
        # The text of `create_server` depends on Python's release.
        reason = os.strerror(error.errno) if error.errno and error.errno > 0 else error.strerror
        raise OSError(f"{key}: cannot listen at {format_address(host, port)}: {reason}") from error
