"""What tools have in common: which cluster they talk to, and how they say that something went wrong."""

import argparse
import logging
import socket
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from importlib import metadata
from pathlib import Path
from typing import Any, Final

from broker_embedded.config.command_line import CommandParser
from broker_embedded.config.settings import read_properties
from spark_kafka_native.client.cluster.cluster import Cluster
from spark_kafka_native.client.config import ClientConfig, ConfigError
from spark_kafka_native.net.address import HostPort
from spark_kafka_native.net.dialing import reason_of
from spark_kafka_native.protocol.errors import KafkaError, LocalProtocolError

KAFKA_VERSION: Final = "4.3.0"
"""The release of Apache Kafka whose tools these are like."""
_PACKAGE: Final = "spark-kafka-native"
FAILED: Final = 1
BAD_USAGE: Final = 2


class ToolError(Exception):
    """A bad option, or a bad value in a file that an option names; ``str()`` is for the user."""


class OutputClosed(Exception):
    """The program that reads stdout or stderr has closed it. No OSError, because tools report those."""


class OutputFailed(Exception):
    """Stdout cannot be written, as on a full disk. As ToolError. No OSError, because tools report those."""


class ToolFailure(Exception):
    """The options are valid and the tool failed: a request was refused, a file cannot be read. As ToolError."""


def _integer(bits: int) -> Callable[[str], int]:
    """The ``type`` of an option whose value is a signed integer of so many bits in Kafka's protocol."""
    bound = 1 << bits - 1

    def parse(text: str) -> int:
        try:
            value = int(text)
        except ValueError:
            raise argparse.ArgumentTypeError(f"{text!r} is not an integer") from None
        if not -bound <= value < bound:
            raise argparse.ArgumentTypeError(f"{text} is not between {-bound} and {bound - 1}")
        return value

    return parse


_CLIENT: Final = "spark_kafka_native.client"
_MOST_REASONS: Final = 100
_UNKNOWN_NAME: Final = frozenset(
    getattr(socket, name) for name in ("EAI_NONAME", "EAI_NODATA") if hasattr(socket, name)
)


INT16: Final = _integer(16)
INT32: Final = _integer(32)
INT64: Final = _integer(64)


class _Version(argparse.Action):
    """Prints the version that programs read from Apache Kafka's tools, and this package's, and ends the tool."""

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> None:
        try:
            ours = metadata.version(_PACKAGE)
        except metadata.PackageNotFoundError:  # run from its sources
            ours = "not installed"
        say(f"{KAFKA_VERSION} ({_PACKAGE} {ours})")
        parser.exit(0)


class ActionParser(CommandParser):
    """The options of one action of a tool. argparse ignores it if the help cannot be written."""

    def print_help(self, file: Any = None) -> None:
        """As in argparse, to stdout. Raises OutputClosed, OutputFailed."""
        if file is None:
            say(self.format_help().removesuffix("\n"))
        else:
            super().print_help(file)


class ToolParser(ActionParser):
    """Options as Kafka's tools spell them: ``--version``, and those for the cluster."""

    def __init__(self, prog: str, description: str) -> None:
        super().__init__(prog=prog, description=description)
        text = "print the release of Apache Kafka whose tools these are like, and that of this package"
        self.add_argument("--version", action=_Version, nargs=0, help=text)

    def add_cluster(self, *, files: Sequence[str] = ("--command-config",)) -> None:
        """``--bootstrap-server``, its older name ``--broker-list``, and properties files for the client."""
        self.add_argument(
            "--bootstrap-server",
            "--broker-list",
            dest="bootstrap_server",
            metavar="HOST:PORT[,...]",
            help="brokers of the cluster",
        )
        self.add_argument(*files, dest="command_config", metavar="FILE", type=Path, help="properties for the client")
        self.add_argument("--zookeeper", help=argparse.SUPPRESS)

    def add_actions(self, *actions: "tuple[str, Action, str]") -> None:
        """Options of which exactly one must be given, each with what ``options.action`` is then and its help."""
        group = self.add_mutually_exclusive_group(required=True)
        for name, action, text in actions:
            group.add_argument(name, dest="action", action="store_const", const=action, help=text)


Action = Callable[[Cluster, argparse.Namespace], None]
"""What a tool does with a cluster, by its options."""


def run(parser: ToolParser, arguments: Sequence[str], refused: "Callable[[KafkaError], int] | None" = None) -> int:
    """Parse the arguments and run ``options.action`` on the cluster that they name; the exit status.

    0: done. 1: the cluster refused a request, or a file cannot be read. 2: a bad option. ``refused`` reports an error
    of the cluster in place of ``refuse``, and returns the exit status.
    """
    options = parser.parse_args(arguments)
    try:
        with open_cluster(options) as cluster:
            options.action(cluster, options)
    except KafkaError as error:
        return refuse(parser.prog, error) if refused is None else refused(error)
    except (ToolFailure, OSError) as error:
        return refuse(parser.prog, error)
    except (ToolError, ValueError, LocalProtocolError) as error:
        return refuse(parser.prog, ToolError(str(error)))
    return 0


@contextmanager
def failing(what: str) -> Iterator[None]:
    """Turn an error of the cluster into a ToolFailure whose text begins with ``what``."""
    try:
        yield
    except KafkaError as error:
        raise ToolFailure(f"{what}: {error}") from error


def open_cluster(options: argparse.Namespace, properties: dict[str, str] | None = None) -> Cluster:
    """The cluster that the options of ``add_cluster`` name. Raises ToolError, ToolFailure."""
    if options.zookeeper is not None:
        raise ToolError("--zookeeper: brokers are asked, not ZooKeeper; say --bootstrap-server HOST:PORT")
    if options.bootstrap_server is None:
        raise ToolError("--bootstrap-server: say which cluster")
    given: dict[str, object] = {}
    if options.command_config is not None:
        given.update(properties_in(options.command_config))
    given |= {**(properties or {}), "bootstrap.servers": options.bootstrap_server}
    try:
        config = ClientConfig.parse(given)
        _refuse_unresolvable(config.bootstrap_servers)
        return Cluster(config)
    except ConfigError as error:
        raise ToolError(str(error)) from error


def _refuse_unresolvable(addresses: Sequence[HostPort]) -> None:
    """Raise ToolError if the resolver says of every host name that it does not exist, as Kafka's Java client does.

    A resolver that does not answer may do so later: the client tries again then.
    """
    reasons = []
    for address in addresses:
        try:
            socket.getaddrinfo(address.host, address.port, type=socket.SOCK_STREAM)
        except (socket.gaierror, UnicodeError) as error:
            if isinstance(error, socket.gaierror) and error.errno not in _UNKNOWN_NAME:
                return
            reasons.append(f"{address} ({reason_of(error)})")
        else:
            return
    raise ToolError(f"--bootstrap-server: no host name can be resolved: {', '.join(reasons)}")


@contextmanager
def reporting_connections() -> Iterator[None]:
    """While the block runs, print what the client logs: why a broker cannot be reached, and warnings. Each once."""
    client = logging.getLogger(_CLIENT)
    handler, level = _OncePerReason(logging.INFO), client.level
    client.addHandler(handler)
    client.setLevel(logging.INFO)
    try:
        yield
    finally:
        client.setLevel(level)
        client.removeHandler(handler)


class _OncePerReason(logging.Handler):
    """Prints the first record of each address and reason to stderr."""

    def __init__(self, level: int) -> None:
        super().__init__(level)
        self._printed: set[tuple[object, ...]] = set()

    def emit(self, record: logging.LogRecord) -> None:
        # The third argument is the time that is left, which is another one each time.
        arguments = record.args[:2] if isinstance(record.args, tuple) else ()
        key = (record.msg, *map(str, arguments))
        if key not in self._printed and len(self._printed) < _MOST_REASONS:
            self._printed.add(key)
            complain(record.getMessage())


def properties_in(path: Path) -> dict[str, str]:
    """The entries of a properties file. Raises ToolFailure naming the file: it cannot be read, or is not UTF-8."""
    try:
        return read_properties(path)
    except (OSError, UnicodeDecodeError) as error:
        raise ToolFailure(f"{path}: {error}") from error


def say(text: str) -> None:
    """Print a line of a tool's answer at once. Raises OutputClosed, OutputFailed."""
    with _output():
        print(text, flush=True)  # noqa: T201  # what a command line tool is for


def say_bytes(data: bytes) -> None:
    """Write bytes of a tool's answer at once. Raises OutputClosed, OutputFailed."""
    with _output():
        sys.stdout.buffer.write(data)
        sys.stdout.buffer.flush()


def flush_output() -> None:
    """Write what stdout and stderr have buffered. Raises OutputClosed, OutputFailed."""
    with _output():
        sys.stdout.flush()
    with _errors():
        sys.stderr.flush()


def complain(text: str) -> None:
    """Print a line about an error to stderr. Raises OutputClosed."""
    with _errors():
        print(text, file=sys.stderr, flush=True)  # noqa: T201  # a command line tool says so on stderr


@contextmanager
def _output() -> Iterator[None]:
    try:
        yield
    except BrokenPipeError as error:
        raise OutputClosed from error
    except OSError as error:
        raise OutputFailed(f"stdout cannot be written: {error.strerror}") from error


@contextmanager
def _errors() -> Iterator[None]:
    """As ``_output`` for stderr, where an OSError is ignored: there is nowhere to report it, and the status remains."""
    try:
        yield
    except BrokenPipeError as error:
        raise OutputClosed from error
    except OSError:
        pass


def refuse(tool: str, error: Exception) -> int:
    """Say why a tool failed, and the exit status that goes with it."""
    complain(f"{tool}: {error}")
    return BAD_USAGE if isinstance(error, ToolError) else FAILED
