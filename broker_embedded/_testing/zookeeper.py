"""A real ZooKeeper server for tests, in a process of its own."""

import os
import signal
import socket
import time
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from broker_embedded._config.addresses import is_loopback, parse_port
from broker_embedded._config.settings import SettingError
from broker_embedded._platform.child_process import ChildProcess
from broker_embedded._testing.server_process import RestartableServer, ServerProcess
from broker_embedded._zookeeper_server.config import LOOPBACK, WORDS, ServerConfig
from broker_embedded._zookeeper_server.programs import ZooKeeperMissing, server_command
from broker_embedded._zookeeper_server.properties import check_properties

START_TIMEOUT_S: Final = 60.0
_POLL_S: Final = 0.02
_PORT_TRIES: Final = 5
"""How many free ports are tried: another process may take one before the server listens."""
_TAIL_LINES: Final = 20
_CONFIG_FILE: Final = "zoo.cfg"
_DEFAULTS: Final[Mapping[str, object]] = MappingProxyType(
    {
        "tickTime": 500,
        "maxClientCnxns": 0,
        "forceSync": "no",  # a kill of the process loses nothing without it; a crash of the machine does
        WORDS: "*",
    }
)
_ADDRESSES: Final = {
    "clientPort": "clientPortAddress",
    "secureClientPort": "secureClientPortAddress",
    "admin.enableServer": "admin.serverAddress",
    "metricsProvider.className": "metricsProvider.httpHost",
}
"""The settings that open a port, and those of its address."""
_REFUSED: Final = {
    "dataDir": "the argument data_dir is the data directory",
    "dynamicConfigFile": "this server is no member of an ensemble",
}


class ZooKeeperStartError(Exception):
    """ZooKeeper's server could not be started: ``str()`` has the reason, or the end of the server's log."""


class EmbeddedZooKeeper(RestartableServer):
    """A ZooKeeper server in a process of its own, from the jars of the installed pyspark. It needs Java 17 or later.

    It keeps its port and its data over ``restart`` and ``kill``, which is SIGKILL. Session timeouts are 1 to 10 s,
    because ``tickTime`` is 500 ms by default.

    >>> with EmbeddedZooKeeper() as zookeeper:
    ...     zookeeper.connect_string
    '127.0.0.1:...'
    """

    _kind = "ZooKeeper"

    def __init__(
        self, data_dir: str | os.PathLike[str] | None = None, *, settings: Mapping[str, object] | None = None
    ) -> None:
        """Nothing starts yet: enter the context, or call ``start``.

        ``data_dir`` None is a temporary directory, removed by ``stop``, when the object is garbage collected, or when
        the interpreter ends. ``settings`` are lines of ``zoo.cfg``, with text, integers or booleans. Without
        ``clientPort`` the server takes a free port. Raises SettingError: a setting is unknown or invalid, opens a port
        that other machines can reach, or is of an ensemble.
        """
        wanted = {key: _text(key, value) for key, value in {**_DEFAULTS, **(settings or {})}.items()}
        wanted.setdefault("clientPort", "0")
        self._has_free_port = not parse_port("clientPort", wanted["clientPort"])
        check_properties(wanted)
        _check_addresses(wanted)
        super().__init__(data_dir)
        self._config = ServerConfig.parse({**wanted, "dataDir": os.path.abspath(self._data_dir)})
        self._server = ServerProcess(self._kind)

    @property
    def connect_string(self) -> str:
        """``127.0.0.1:PORT``, for ``zookeeper.connect``. Raises RuntimeError: the server has not been started."""
        if not self._config.port:
            raise RuntimeError("ZooKeeper has not been started")
        return self._config.address

    @property
    def pid(self) -> int:
        """The process id. Raises RuntimeError: the server does not run."""
        return self._server.running.pid

    @property
    def output(self) -> str:
        """The log of the present or last process."""
        return self._server.output

    def kill(self) -> None:
        """End the process at once (SIGKILL). ``start`` recovers the data. Raises RuntimeError: it does not run."""
        self._end_with(signal.SIGKILL)

    def pause(self) -> None:
        """Stop the process (SIGSTOP): clients keep their connections, and get no response until ``resume``.

        Raises RuntimeError: it does not run.
        """
        with self._changing:
            self._server.running.send_signal(signal.SIGSTOP)
            self._server.running.wait_until_stopped()
            self._server.check_not_ended()

    def resume(self) -> None:
        """Continue after ``pause`` (SIGCONT). Sessions that have expired meanwhile are closed.

        Raises RuntimeError: it does not run.
        """
        with self._changing:
            self._server.running.send_signal(signal.SIGCONT)
            self._server.check_not_ended()

    # --- the process -------------------------------------------------------------------------------------------------

    def _start(self) -> None:
        if self._server.is_running and (self._server.is_stopping or self._server.running.status() is not None):
            self._stop()
        if self._server.is_running:
            return
        path = self._data_dir / _CONFIG_FILE
        try:
            command = server_command(path)
            self._config.check_ports()
            self._config.make_directories()
        except (ZooKeeperMissing, OSError) as error:
            raise ZooKeeperStartError(str(error)) from error
        for _ in range(_PORT_TRIES if self._has_free_port else 1):
            config = self._config.with_port(_free_port()) if self._has_free_port else self._config
            try:
                config.write(path)
            except OSError as error:
                raise ZooKeeperStartError(f"cannot write {path}: {error.strerror}") from error
            status = self._run(command, config)
            if status is None:
                self._config, self._has_free_port = config, False
                return
            if "Address already in use" not in self.output:
                break
        tail = "\n".join(self.output.splitlines()[-_TAIL_LINES:])
        raise ZooKeeperStartError(f"ZooKeeper at {config.address} ended with status {status}:\n{tail}")

    def _run(self, command: list[str], config: ServerConfig) -> int | None:
        """Start a process, and wait until it serves clients. The exit status if it does not."""
        process = self._server.start(command, self.stop)
        try:
            if _wait_until_it_serves(process, config):
                return None
        except BaseException:  # interrupted
            if self._server.is_running:  # not stopped by a handler of a signal
                self.kill()
            raise
        return self._end_with(signal.SIGKILL)

    def _stop(self) -> None:
        if self._server.is_running:
            self._end_with(signal.SIGTERM)

    def _end_with(self, number: signal.Signals) -> int:
        with self._changing:
            return self._server.end_with(number)


def _wait_until_it_serves(process: ChildProcess, config: ServerConfig) -> bool:
    """Wait until the server serves clients. False: it has ended, or does not serve after ``START_TIMEOUT_S``."""
    deadline = time.monotonic() + START_TIMEOUT_S
    while process.status() is None and time.monotonic() < deadline:
        if config.serves():
            return True
        time.sleep(_POLL_S)
    return False


def _text(key: str, value: object) -> str:
    """The value of a setting as ``zoo.cfg`` has it. Raises SettingError."""
    if key in _REFUSED:
        raise SettingError(key, _REFUSED[key])
    if key.startswith("server."):
        raise SettingError(key, _REFUSED["dynamicConfigFile"])
    if isinstance(value, bool):
        return str(value).lower()
    if not isinstance(value, str | int):
        raise SettingError(key, f"{value!r} is neither text, an integer nor a boolean")
    return str(value)


def _check_addresses(settings: dict[str, str]) -> None:
    """Set the addresses of all ports that are not set. Raises SettingError: other machines can reach one."""
    for opening, address in _ADDRESSES.items():
        if opening in settings:
            settings.setdefault(address, LOOPBACK)
        if address in settings and not is_loopback(settings[address]):
            problem = f"other machines can reach {settings[address]!r}; listen on {LOOPBACK}"
            raise SettingError(address, problem)


def _free_port() -> int:
    with socket.create_server((LOOPBACK, 0)) as server:
        port: int = server.getsockname()[1]
        return port
