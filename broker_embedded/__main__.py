"""``python -m broker_embedded``: a broker on the command line."""

import argparse
import asyncio
import logging
import sys
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from broker_embedded._broker import DataDirectoryError
from broker_embedded._config.addresses import format_address, parse_address, parse_port
from broker_embedded._config.config import BrokerConfig
from broker_embedded._config.listener_settings import prefixed_settings
from broker_embedded._config.releases import RELEASE_NAMES
from broker_embedded._config.settings import SettingError
from broker_embedded._config.unused_settings import unused_settings
from broker_embedded._server.listener import ListenError
from broker_embedded._server.run import EndOfRun, lines_at_start, running_broker
from spark_kafka_native._command_line import CommandParser, file_error, open_closed_streams, read_properties

if TYPE_CHECKING:
    from broker_embedded._testing.command import ControlOptions

_FAILED: Final = 1
_BAD_USAGE: Final = 2


class _Given(NamedTuple):
    """The value of a setting, and the option or file that sets it, as errors name it."""

    value: object
    origin: str


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a broker until SIGTERM or SIGINT; the exit status.

    0: stopped cleanly. 1: the address is in use, the data directory is locked or cannot be used, or all its logs are
    offline. 2: an invalid option.
    """
    open_closed_streams()
    parser = _parser()
    options = parser.parse_args(arguments)
    logging.basicConfig(
        level=options.log_level, stream=sys.stderr, format="%(asctime)s %(levelname)s %(name)s: %(message)s"
    )
    try:
        given = _settings(options)
        config = _parse(given)
        data_dir = options.data_dir or config.log_dirs
        if not data_dir:
            raise ValueError("--data-dir is required unless log.dirs is set")
        control = _control(options)
    except ValueError as error:
        return _print_error(error, _BAD_USAGE)
    origins = {"listeners": "--listen", "--control-listener": "--control-listener"}
    origins |= {key: setting.origin for key, setting in given.items()}
    try:
        return asyncio.run(_run(config, data_dir) if control is None else _run_controlled(given, data_dir, control))
    except ListenError as error:
        return _print_error(f"{origins.get(error.listener, origins['listeners'])}: {error}", _FAILED)
    except DataDirectoryError as error:
        return _print_error(f"{'--data-dir' if options.data_dir else origins['log.dirs']}: {error}", _FAILED)
    except OSError as error:
        return _print_error(error, _FAILED)


def _parse(given: Mapping[str, _Given]) -> BrokerConfig:
    """The configuration. Raises SettingError naming the origin of the setting."""
    try:
        return BrokerConfig.parse({key: setting.value for key, setting in given.items()})
    except SettingError as error:
        origin = given[error.key].origin if error.key in given else error.key
        raise SettingError(origin, error.problem) from None


async def _run_controlled(given: Mapping[str, _Given], data_dir: str, control: "ControlOptions") -> int:
    from broker_embedded._testing.command import controlled_broker  # noqa: PLC0415  # only --control-listener needs it

    end = EndOfRun()
    settings = {key: setting.value for key, setting in given.items()}
    async with controlled_broker(settings, data_dir, control, on_failed=end.fail) as lines:
        _print_lines(lines)
        return await end.wait()


def _control(options: argparse.Namespace) -> "ControlOptions | None":
    """The options of the control port, or None. Raises ValueError."""
    if options.control_listener is None:
        if options.clock is not None:
            raise ValueError("--clock requires --control-listener")
        if options.control_from_anywhere:
            raise ValueError("--control-from-anywhere requires --control-listener")
        return None
    from broker_embedded._testing.command import ControlOptions  # noqa: PLC0415  # only --control-listener needs it

    return ControlOptions.parse(
        options.control_listener, allow_remote=options.control_from_anywhere, clock=options.clock
    )


async def _run(config: BrokerConfig, data_dir: str) -> int:
    end = EndOfRun()
    async with running_broker(config, data_dir, on_failed=end.fail) as server:
        _print_lines(lines_at_start(server))
        return await end.wait()


def _print_lines(lines: Sequence[str]) -> None:
    """Write the addresses to stdout, for which the process that starts a broker waits."""
    sys.stdout.write("".join(f"{line}\n" for line in lines))
    sys.stdout.flush()


def _print_error(error: Exception | str, status: int) -> int:
    sys.stderr.write(f"broker_embedded: {error}\n")
    return status


def _settings(options: argparse.Namespace) -> dict[str, _Given]:
    """The settings: those of --set override those of other options, which override those of the file.

    Raises SettingError and ValueError naming the option or the file.
    """
    given = {} if options.config is None else _file_settings(options.config)
    if options.listen is not None:
        address = format_address(*parse_address("--listen", options.listen))
        given["listeners"] = _Given(f"PLAINTEXT://{address}", "--listen")
    if options.advertise is not None:
        address = format_address(*parse_address("--advertise", options.advertise))
        given["advertised.listeners"] = _Given(f"PLAINTEXT://{address}", "--advertise")
    if options.as_version is not None:
        given["as.version"] = _Given(options.as_version, "--as-version")
    if options.metrics_port is not None:
        port = parse_port("--metrics-port", options.metrics_port)
        given["metrics.listener"] = _Given(f"127.0.0.1:{port}", "--metrics-port")
    if options.add_scram:
        given["add.scram"] = _all_users(given.get("add.scram"), _Given(" ".join(options.add_scram), "--add-scram"))
    for item in options.set:
        key, separator, value = item.partition("=")
        if not separator:
            raise SettingError("--set", f"{item!r} is not KEY=VALUE")
        given[key.strip()] = _Given(value.strip(), f"--set {key.strip()}")
    return given


def _file_settings(path: Path) -> dict[str, _Given]:
    """The settings of a file. Raises ValueError naming it: it cannot be read."""
    try:
        return {key: _Given(value, f"--config {path}: {key}") for key, value in read_properties(path).items()}
    except (OSError, ValueError) as error:
        raise ValueError(f"--config {path}: {file_error(error)}") from None


def _all_users(in_file: _Given | None, added: _Given) -> _Given:
    """The SCRAM users of the file and of the options.

    Each is parsed alone first, so that an error names the file or the option. Raises SettingError.
    """
    if in_file is None:
        return added
    for users in (in_file, added):
        _parse({"add.scram": users})
    return _Given(f"{in_file.value} {added.value}", f"{in_file.origin} and {added.origin}")


def _parser() -> argparse.ArgumentParser:
    parser = CommandParser(
        prog="python -m broker_embedded",
        description="A Kafka-compatible broker with an on-disk log. Prints 'listening on HOST:PORT' when it is ready.",
        epilog="\n".join(_documents()),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "--listen", metavar="HOST:PORT", help="address to listen on (127.0.0.1:9092); port 0 is a free port"
    )
    parser.add_argument(
        "--advertise", metavar="HOST:PORT", help="address that clients connect to, if it is another one"
    )
    parser.add_argument(
        "--as-version",
        metavar="RELEASE",
        help=f"the release of Kafka to emulate, {RELEASE_NAMES[0]} to {RELEASE_NAMES[-1]} ({RELEASE_NAMES[-1]})",
    )
    parser.add_argument("--data-dir", metavar="DIR", help="the data directory, created if it does not exist")
    parser.add_argument(
        "--add-scram",
        metavar="MECHANISM=[name=NAME,password=PASSWORD]",
        action="append",
        default=[],
        help="a SCRAM user to create, unless it exists; as add.scram below",
    )
    parser.add_argument("--set", metavar="KEY=VALUE", action="append", default=[], help="a setting from the list below")
    parser.add_argument(
        "--metrics-port",
        metavar="PORT",
        help="serve metrics for Prometheus at this port of 127.0.0.1; 0 is a free port",
    )
    parser.add_argument("--config", metavar="FILE", type=Path, help="a properties file with settings")
    parser.add_argument(
        "--control-listener",
        metavar="HOST:PORT",
        help="for tests: address of an HTTP port that sets faults and advances the clock",
    )
    parser.add_argument(
        "--control-from-anywhere", action="store_true", help="allow other machines to use the control listener"
    )
    parser.add_argument(
        "--clock",
        metavar="CLOCK",
        help="for tests: manual:MS is a clock that stands still at MS, ahead:MS one that is MS ahead",
    )
    parser.add_argument(
        "--log-level",
        default="INFO",
        choices=("DEBUG", "INFO", "WARNING", "ERROR"),
        help="what to log to stderr (INFO)",
    )
    return parser


def _documents() -> Iterator[str]:
    yield "settings, by Kafka's names (default; values allowed):"
    for setting in (*BrokerConfig.settings().values(), *prefixed_settings().values()):
        bounds = f"; {setting.bounds}" if setting.bounds else ""
        yield f"  {setting.key} ({setting.default_text or 'none'}{bounds})"
        yield textwrap.fill(setting.doc, 110, initial_indent="      ", subsequent_indent="      ")
    yield f"  {len(unused_settings())} other settings of Apache Kafka have no effect or are refused: docs/options.md."


if __name__ == "__main__":
    sys.exit(main())
