"""A fork server for the Python processes with which Spark plans queries: their modules are imported already.

Spark starts a process for every stream, and several for the first queries of a session. Most of their start is the
import of pyspark, pyarrow and this package. The first one of a JVM imports them and forks the server from itself:

1. A process connects to the abstract Unix socket that is named after its JVM. The first one binds it instead, imports
   the modules and forks the server. Then it runs its own module. One that connects during the imports gets no answer
   in time, and runs its module itself.
2. A later one, a client, sends its arguments, environment and standard streams. The server has forked a process, which
   receives them.
3. The forked process ends if the interpreter, its path or the environment differ from the server's. It also ends if a
   file of an imported module has changed, because pip has installed the package again: the files of top-level modules
   and packages are compared, and of modules in namespace packages.
4. Otherwise it sends ``READY``, the client sends ``RUN``, and the forked process runs the module. A client that has not
   received ``READY`` in time runs its module itself; the forked process then does not receive ``RUN`` and ends.
5. The client waits. The server sends it the exit status of the forked process, with which the client ends. If the
   client ends first, as when Spark ends it by ``SIGTERM``, the server sends ``SIGTERM`` to the forked process. If the
   server ends first, the client does.

The server ends with the JVM. On Linux only: elsewhere every process runs its module itself, because system libraries of
macOS do not support a fork without exec.
"""

import gc
import importlib
import marshal
import os
import select
import signal
import socket
import struct
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, NamedTuple

MAX_CLIENTS: Final = 200
"""Processes at once. Further clients run their modules themselves."""
MESSAGE_TIMEOUT_S: Final = 2.0
"""Wait for a message of the other side. Spark waits 10 s for a process that it has started."""
_MAX_REQUEST_BYTES: Final = 4 << 20
"""Size of a request, which is mostly the environment. Linux limits that to 2 MiB unless the stack limit is raised."""
_LENGTH: Final = struct.Struct("=I")
_MESSAGE: Final = struct.Struct("=ci")
"""To a client: the kind, and the pid of the forked process or its exit status."""
_READY: Final = b"R"
_ENDED: Final = b"E"
_RUN: Final = b"G"
"""To the forked process."""
_CREDENTIALS: Final = struct.Struct("=iii")
"""Of SO_PEERCRED: pid, user, group."""
_PPID, _START_TIME = 1, 19
"""Positions of fields that `_stat_of` returns."""
_STREAMS: Final = (0, 1, 2)
_TERMINAL_SIGNALS_IGNORED: Final = {signal.SIGINT: signal.SIG_IGN, signal.SIGQUIT: signal.SIG_IGN}
"""Handlers of clients and the server. A JVM may survive these signals: Spark's shell cancels its jobs at SIGINT, and
a JVM lists its threads at SIGQUIT. A forked process in the JVM's process group handles them itself.
"""
_VARIABLES_OF_A_PROCESS: Final = (
    "PYSPARK_EXECUTOR_",
    "PYSPARK_PLANNER_",
    "PYTHON_DAEMON_",
    "PYTHON_FAULTHANDLER_",
    "PYTHON_UDF_",
    "PYTHON_UNIX_DOMAIN_",
    "PYTHON_WORKER_",
    "SPARK_",
)
"""Prefixes of the variables that Spark sets for a process and that it reads only when the module runs."""


def run_in_forked_process(modules: Sequence[str]) -> None:
    """Replace this process by one that is forked from the fork server of its JVM, if possible.

    Returns in the process that must run the module: the forked one, or this one if there is no server or the server
    refuses. If a process was forked, this one waits for it and exits with its status. The first process of a JVM
    imports those of ``modules`` that exist, and starts the server.
    """
    if sys.platform != "linux" or not (hasattr(os, "pidfd_open") and hasattr(signal, "pidfd_send_signal")):
        return  # some builds of Python lack them
    try:
        jvm = _Jvm.of_this_process()
    except OSError:  # no pidfd or no /proc
        return
    if jvm is None:
        return
    try:
        listener = socket.socket(socket.AF_UNIX)
        try:
            listener.bind(jvm.address)
            listener.listen(MAX_CLIENTS)
        except OSError:
            listener.close()
            handlers = _set_handlers(_TERMINAL_SIGNALS_IGNORED)
            _run_by_server(jvm.address)
            _set_handlers(handlers)
            return
        with listener:
            _start_server(listener, jvm, modules)
    finally:
        jvm.close()


class _Jvm(NamedTuple):
    """The process that started this one."""

    pid: int
    pidfd: int
    """Readable once the JVM has ended."""
    address: str
    """The abstract address of its server. It has the user, the namespaces, the JVM's pid and its start time, so that no
    other JVM has the same.
    """

    @classmethod
    def of_this_process(cls) -> "_Jvm | None":
        """None: the parent process is no JVM. Raises OSError."""
        parent = os.getppid()
        pidfd = os.pidfd_open(parent)
        try:
            name, fields = _stat_of(parent)
            if name != "java" or os.getppid() != parent:
                os.close(pidfd)
                return None
            namespaces = (os.stat(f"/proc/self/ns/{kind}").st_ino for kind in ("pid", "mnt"))
            identity = (os.geteuid(), *namespaces, parent, fields[_START_TIME])
        except OSError:
            os.close(pidfd)
            raise
        return cls(parent, pidfd, "\0pykafka-python-" + "-".join(map(str, identity)))

    def has_started(self, pid: int) -> bool:
        """Whether the JVM is the parent of a process."""
        try:
            return _stat_of(pid)[1][_PPID] == str(self.pid)
        except OSError:  # it has ended
            return False

    def close(self) -> None:
        """Close the pidfd."""
        os.close(self.pidfd)


def _stat_of(pid: int) -> tuple[str, Sequence[str]]:
    """The command name of a process in ``/proc/<pid>/stat``, and the fields after it. Raises OSError."""
    text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")  # the name is cut at 15 bytes
    name, _, fields = text.partition("(")[2].rpartition(")")
    return name, fields.split()


class _Request(NamedTuple):
    """The Python, arguments and environment of a process. Serialized by ``marshal``, which is built in."""

    interpreter: str
    version: str
    directory: str
    path: list[str]
    environment: dict[str, str]
    arguments: list[str]

    @classmethod
    def of_this_process(cls) -> "_Request":
        """Raises OSError: the working directory is gone."""
        path = list(dict.fromkeys(sys.path))
        return cls(sys.executable, sys.version, os.getcwd(), path, dict(os.environ), sys.argv)

    @classmethod
    def received(cls, data: bytes) -> "_Request":
        """Raises ValueError, EOFError or TypeError: data of another version of Python or of this package."""
        return cls(*marshal.loads(data))  # noqa: S302  # sent by a process of the same user

    def can_run_in(self, server: "_Request") -> bool:
        """Whether a new Python for this request would have the server's interpreter, path and environment."""
        return self.state == server.state

    @property
    def state(self) -> Sequence[Any]:
        """What affects Python before a module runs. ``PYTHONPATH`` is compared as a part of ``path``."""
        environment = {
            name: value
            for name, value in self.environment.items()
            if name != "PYTHONPATH" and not name.startswith(_VARIABLES_OF_A_PROCESS)
        }
        return self.interpreter, self.version, self.directory, self.path, environment

    def apply(self) -> None:
        """Set the arguments and the environment of this process."""
        os.environ.clear()
        os.environ.update(self.environment)
        sys.argv[:] = self.arguments


def _run_by_server(address: str) -> None:
    """Let the server fork a process, wait for it, and exit with its status.

    Returns if the server refuses or does not answer.
    """
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(MESSAGE_TIMEOUT_S)
        try:
            connection.connect(address)
            if _peer_of(connection) is None:
                return
            request = marshal.dumps(tuple(_Request.of_this_process()))
            socket.send_fds(connection, [_LENGTH.pack(len(request))], _STREAMS)
            connection.sendall(request)
            kind, pid = _MESSAGE.unpack(connection.recv(_MESSAGE.size) or bytes(_MESSAGE.size))
            if kind != _READY:
                return
            pidfd = os.pidfd_open(pid)
            connection.sendall(_RUN)
        except (OSError, ValueError):  # ValueError: a path with an entry that is no text, which Python ignores
            return
        connection.settimeout(None)
        with suppress(OSError):  # the connection was reset
            if message := connection.recv(_MESSAGE.size):
                _, status = _MESSAGE.unpack(message)
                os._exit(status if status >= 0 else 128 - status)
    with suppress(OSError):  # it has ended
        signal.pidfd_send_signal(pidfd, signal.SIGTERM)
    with suppress(OSError):  # nothing reads the stream
        os.write(2, b"pykafka-python: the fork server ended; ending process %d, which it has forked\n" % pid)
    os._exit(1)


def _start_server(listener: socket.socket, jvm: _Jvm, modules: Sequence[str]) -> None:
    """Import the modules and fork the server; returns in this process and in those that the server forks."""
    try:
        own = _Request.of_this_process()
    except OSError:
        return
    for name in modules:
        with suppress(Exception):  # Spark reports it if it needs the module; older releases have fewer of them
            importlib.import_module(name)
    packages = _package_files()
    try:
        intermediate_pid = os.fork()
    except OSError:  # the limit of processes
        return
    if intermediate_pid:
        os.waitpid(intermediate_pid, 0)
        return
    try:
        if os.fork():  # so that the server is no child of this process, which may wait for its own
            os._exit(0)
        _serve(listener, jvm, own, packages)
    except BaseException:  # nothing of the first process may run in this one
        os._exit(1)


def _serve(listener: socket.socket, jvm: _Jvm, own: _Request, packages: Mapping[str, tuple[int, ...]]) -> None:
    """Be the server until the JVM ends. Returns in each forked process that is to run a module."""
    handlers = _set_handlers(_TERMINAL_SIGNALS_IGNORED)
    with open(os.devnull, "r+b", buffering=0) as null:
        for stream in _STREAMS:
            os.dup2(null.fileno(), stream)
    gc.collect()
    gc.freeze()  # forked processes share the memory
    server = _Server(listener, jvm)
    connection = server.serve()
    _set_handlers(handlers)
    with connection:
        connection.settimeout(MESSAGE_TIMEOUT_S)
        if not packages.items() <= _package_files().items():  # a hook that runs after a fork may import more
            raise SystemExit
        _take_over(connection, own)
    if numpy_random := sys.modules.get("numpy.random"):
        numpy_random.seed()  # Python's own generator does this itself


def _package_files() -> Mapping[str, tuple[int, ...]]:
    """Inode, modification time and size of the file of each imported top-level module or package.

    A namespace package has no file: the modules in it are listed instead.
    """
    files: dict[str, tuple[int, ...]] = {}
    for name in sorted(name for name in sys.modules if isinstance(name, str)):  # packages before what is in them
        if name.partition(".")[0] not in files:
            with suppress(Exception):  # built in, a namespace, in an archive, removed, or no module
                file = object.__getattribute__(sys.modules[name], "__file__")  # does not import lazy modules
                status = os.stat(os.fspath(file))
                files[name] = status.st_ino, status.st_mtime_ns, status.st_size
    return files


class _Forked(NamedTuple):
    """A process that the server has forked."""

    pid: int
    pidfd: int
    connection: socket.socket
    """To its client."""

    def end(self) -> None:
        """Send SIGTERM to the process, unless it has ended."""
        with suppress(OSError):
            signal.pidfd_send_signal(self.pidfd, signal.SIGTERM)

    def close(self) -> None:
        """Close the descriptors of this process."""
        os.close(self.pidfd)
        self.connection.close()


class _Server:
    """Forks a process for each client. It blocks in ``poll`` only, and reads nothing from clients."""

    def __init__(self, listener: socket.socket, jvm: _Jvm) -> None:
        self._listener = listener
        self._jvm = jvm
        self._processes: dict[int, _Forked] = {}
        """Two entries for each process: its pidfd, and the socket of its client. An event removes its entry."""
        self._poll = select.poll()  # lists the listener first, before descriptors that a later event closes
        self._poll.register(listener, select.POLLIN)
        self._poll.register(jvm.pidfd, select.POLLIN)

    def serve(self) -> socket.socket:
        """Serve until the JVM ends. Returns in each forked process, with the connection to the client."""
        while True:
            for descriptor, _ in self._poll.poll():
                if descriptor == self._jvm.pidfd:
                    for forked in self._processes.values():
                        forked.end()
                    os._exit(0)
                if descriptor == self._listener.fileno():
                    if connection := self._accept():
                        return connection
                elif found := self._processes.pop(descriptor, None):
                    self._poll.unregister(descriptor)
                    if descriptor == found.pidfd:
                        self._report_end(found)
                    else:  # the client has ended
                        found.end()

    def _accept(self) -> socket.socket | None:
        """The connection, in a forked process."""
        try:
            connection, _ = self._listener.accept()
        except OSError:  # no descriptors
            time.sleep(0.1)  # the client is still in the queue, so that the next poll returns at once
            return None
        peer = _peer_of(connection)
        is_full = len(self._processes) >= 2 * MAX_CLIENTS  # each has two entries
        if is_full or peer is None or not self._jvm.has_started(peer):
            connection.close()
            return None
        try:
            with open(os.devnull):
                pass  # so that a descriptor is left for the pidfd
            pid = os.fork()
        except OSError:  # no descriptors, or the limit of processes
            connection.close()
            return None
        if not pid:
            self._close()
            return connection
        try:
            forked = _Forked(pid, os.pidfd_open(pid), connection)
        except OSError:  # the limits of the machine
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
            connection.close()
            return None
        self._processes[forked.pidfd] = self._processes[connection.fileno()] = forked
        self._poll.register(forked.pidfd, select.POLLIN)
        self._poll.register(connection, select.POLLRDHUP)
        return None

    def _report_end(self, forked: _Forked) -> None:
        """Send the status of a process that has ended."""
        _, status = os.waitpid(forked.pid, 0)
        if self._processes.pop(forked.connection.fileno(), None):
            self._poll.unregister(forked.connection)
        forked.connection.settimeout(0)
        with suppress(OSError):  # the client has ended
            forked.connection.send(_MESSAGE.pack(_ENDED, os.waitstatus_to_exitcode(status)))
        forked.close()

    def _close(self) -> None:
        """Close the server's descriptors in a forked process."""
        for forked in set(self._processes.values()):
            forked.close()
        self._listener.close()


def _take_over(connection: socket.socket, own: _Request) -> None:
    """Apply the client's request, and use its streams. Raises SystemExit: the client runs its module itself."""
    length, streams, _, _ = socket.recv_fds(connection, _LENGTH.size, len(_STREAMS))
    (size,) = _LENGTH.unpack(length)
    if size > _MAX_REQUEST_BYTES or len(streams) != len(_STREAMS):
        raise SystemExit
    data = bytearray()
    while len(data) < size and (part := connection.recv(size - len(data))):
        data += part
    request = _Request.received(bytes(data))
    if not request.can_run_in(own):
        raise SystemExit
    request.apply()
    _forget_directories()
    connection.sendall(_MESSAGE.pack(_READY, os.getpid()))
    connection.settimeout(None)  # a client that does not send ``RUN`` closes the connection
    if connection.recv(len(_RUN)) != _RUN:
        raise SystemExit
    for stream, received in zip(_STREAMS, streams, strict=True):
        os.dup2(received, stream)
        os.close(received)


def _forget_directories() -> None:
    """Let imports find files that were added since the server started."""
    for entry_finder in list(sys.path_importer_cache.values()):
        with suppress(Exception):  # some finders lack the method, and others fail
            entry_finder.invalidate_caches()  # type: ignore[union-attr]  # or None, which fails, too
    sys.path_importer_cache.clear()  # so that Python's own finder does not stop at one that fails
    for finder in sys.meta_path:
        with suppress(Exception):
            finder.invalidate_caches()  # type: ignore[attr-defined]  # an optional method


def _set_handlers(handlers: Mapping[signal.Signals, Any]) -> Mapping[signal.Signals, Any]:
    """Set handlers of signals; returns those before."""
    return {number: signal.signal(number, handler) for number, handler in handlers.items()}


def _peer_of(connection: socket.socket) -> int | None:
    """The pid of the process that has connected or listens; None for another user's, and for one of another container.

    Containers may share a network namespace, in which addresses of abstract sockets are known to all.
    """
    credentials = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    pid, user, _ = _CREDENTIALS.unpack(credentials)
    return pid if pid and user == os.geteuid() else None
