"""``python -m broker_embedded``: a broker on the command line."""

import asyncio
import logging
import sys
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import click

from broker_embedded._broker import DataDirectoryError
from broker_embedded._config.addresses import format_address, parse_address, parse_port
from broker_embedded._config.config import BrokerConfig
from broker_embedded._config.listener_settings import prefixed_settings
from broker_embedded._config.old_names import OLD_NAMES, renamed
from broker_embedded._config.releases import RELEASE_NAMES
from broker_embedded._config.settings import SettingError
from broker_embedded._config.unused_settings import unused_settings
from broker_embedded._server.listener import ListenError
from broker_embedded._server.run import EndOfRun, lines_at_start, running_broker
from spark_kafka_native._command_line.commands import Options, ToolCommand, run
from spark_kafka_native._command_line.output import InvalidOption, ToolFailed, say
from spark_kafka_native._command_line.parameters import PATH, flag, option
from spark_kafka_native._command_line.properties import parse_pairs, properties_in
from spark_kafka_native._zookeeper.errors import ZooKeeperError

if TYPE_CHECKING:
    from broker_embedded._testing.control.command import ControlOptions


class _Given(NamedTuple):
    """The value of a setting, and the option or file that sets it, as errors name it."""

    value: object
    origin: str


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a broker; the exit status. 0: stopped cleanly. 1: it failed. 2: an invalid option."""
    return run(broker, "python -m broker_embedded", sys.argv[1:] if arguments is None else arguments)


_EXAMPLES: Final = """\
examples
  {command} --data-dir ./kafka-data
  {command} --data-dir ./kafka-data --listen 0.0.0.0:9092 --advertise kafka.example.org:9092 --set num.partitions=6
  {command} --config server.properties --metrics-port 9644
"""


class _Broker(ToolCommand):
    """The help ends with the settings, which are listed only if it is printed."""

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        self.epilog = "\n".join([_EXAMPLES, *_documents()])
        super().format_epilog(ctx, formatter)


@click.command(
    "broker",
    cls=_Broker,
    help="Run the bundled broker. It prints 'listening on HOST:PORT' when it is ready.",
)
@option("--listen", metavar="HOST:PORT", help="address to listen on (127.0.0.1:9092); port 0 is a free port")
@option("--advertise", metavar="HOST:PORT", help="address that clients connect to, if it is another one")
@option(
    "--as-version",
    metavar="RELEASE",
    help=f"the release of Kafka to emulate, {RELEASE_NAMES[0]} to {RELEASE_NAMES[-1]}, which is the default",
)
@option("--data-dir", metavar="DIR", help="the data directory, created if it does not exist")
@option(
    "--add-scram",
    metavar="MECHANISM=[name=NAME,password=PASSWORD]",
    multiple=True,
    help="a SCRAM user to create, unless it exists; as add.scram below",
)
@option("--set", metavar="KEY=VALUE", multiple=True, help="a setting from the list below")
@option(
    "--metrics-port", metavar="PORT", help="serve metrics for Prometheus at this port of 127.0.0.1; 0 is a free port"
)
@option("--config", metavar="FILE", type=PATH, help="a properties file with settings")
@option(
    "--control-listener",
    metavar="HOST:PORT",
    help="for tests: address of an HTTP port that sets faults and advances the clock",
)
@flag("--control-from-anywhere", help="allow other machines to use the control listener")
@option(
    "--clock",
    metavar="CLOCK",
    help="for tests: manual:MS is a clock that stands still at MS, ahead:MS one that is MS ahead",
)
@option(
    "--log-level",
    type=click.Choice(["DEBUG", "INFO", "WARNING", "ERROR"]),
    default="INFO",
    show_default=True,
    help="what to log to stderr",
)
def broker(**given_options: Any) -> int:
    """Run a broker until SIGTERM or SIGINT.

    Raises InvalidOption: an invalid option. ToolFailed, OSError: the address is in use, the data directory is locked or
    cannot be used, all its logs are offline, or ZooKeeper cannot be used.
    """
    options = Options(**given_options)
    logging.basicConfig(
        level=options.log_level, stream=sys.stderr, format="%(asctime)s %(levelname)s %(name)s: %(message)s"
    )
    try:
        given = _settings(options)
        config = _parse(given)
        control = _control(options)
    except ValueError as error:
        raise InvalidOption(str(error)) from error
    data_dir = options.data_dir or config.log_dirs
    if not data_dir:
        raise InvalidOption("--data-dir is required unless log.dirs is set")
    origins = {"listeners": "--listen", "--control-listener": "--control-listener"}
    origins |= {key: setting.origin for key, setting in given.items()}
    try:
        return asyncio.run(_run(config, data_dir) if control is None else _run_controlled(given, data_dir, control))
    except ListenError as error:
        raise ToolFailed(f"{origins.get(error.listener, origins['listeners'])}: {error}") from error
    except DataDirectoryError as error:
        raise ToolFailed(f"{'--data-dir' if options.data_dir else origins['log.dirs']}: {error}") from error
    except ZooKeeperError as error:
        raise ToolFailed(f"{origins['zookeeper.connect']}: {error}") from error


def _parse(given: Mapping[str, _Given]) -> BrokerConfig:
    """The configuration. Raises SettingError naming the origin of the setting."""
    try:
        return BrokerConfig.parse({key: setting.value for key, setting in given.items()})
    except SettingError as error:
        origin = given[error.key].origin if error.key in given else error.key
        raise SettingError(origin, error.problem) from None


async def _run_controlled(given: Mapping[str, _Given], data_dir: str, control: "ControlOptions") -> int:
    from broker_embedded._testing.control.command import controlled_broker  # noqa: PLC0415  # only --control-listener needs it

    end = EndOfRun()
    settings = {key: setting.value for key, setting in given.items()}
    return await end.run(
        controlled_broker(settings, data_dir, control, on_failed=end.fail), lambda lines: say("\n".join(lines))
    )


def _control(options: Options) -> "ControlOptions | None":
    """The options of the control port, or None. Raises ValueError."""
    if options.control_listener is None:
        if options.clock is not None:
            raise ValueError("--clock requires --control-listener")
        if options.control_from_anywhere:
            raise ValueError("--control-from-anywhere requires --control-listener")
        return None
    from broker_embedded._testing.control.command import ControlOptions  # noqa: PLC0415  # only --control-listener needs it

    return ControlOptions.parse(
        options.control_listener, allow_remote=options.control_from_anywhere, clock=options.clock
    )


async def _run(config: BrokerConfig, data_dir: str) -> int:
    end = EndOfRun()
    return await end.run(
        running_broker(config, data_dir, on_failed=end.fail),
        lambda server: say("\n".join(lines_at_start(server))),  # for which the process that starts a broker waits
    )


def _settings(options: Options) -> dict[str, _Given]:
    """The settings by their present names: those of --set override those of other options, which override the file's.

    Raises SettingError, InvalidOption, ToolFailed naming the option or the file.
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
    return given | _by_present_names(parse_pairs(options.set, "--set"), "--set ")


def _file_settings(path: Path) -> dict[str, _Given]:
    """The settings of a file. Raises ToolFailed and SettingError naming it."""
    return _by_present_names(properties_in(path, "--config"), f"--config {path}: ")


def _by_present_names(entries: Mapping[str, str], origin: str) -> dict[str, _Given]:
    """The settings by their present names. Their origin has the names as written. Raises SettingError."""
    written = {OLD_NAMES.get(key, key): key for key in entries}
    try:
        return {key: _Given(value, origin + written[key]) for key, value in renamed(entries).items()}
    except SettingError as error:
        raise SettingError(origin + error.key, error.problem) from None


def _all_users(in_file: _Given | None, added: _Given) -> _Given:
    """The SCRAM users of the file and of the options.

    Each is parsed alone first, so that an error names the file or the option. Raises SettingError.
    """
    if in_file is None:
        return added
    for users in (in_file, added):
        _parse({"add.scram": users})
    return _Given(f"{in_file.value} {added.value}", f"{in_file.origin} and {added.origin}")


def _documents() -> Iterator[str]:
    yield "settings, by Kafka's names (default; values allowed):"
    for setting in (*BrokerConfig.settings().values(), *prefixed_settings().values()):
        bounds = f"; {setting.bounds}" if setting.bounds else ""
        yield f"  {setting.key} ({setting.default_text or 'none'}{bounds})"
        yield textwrap.fill(setting.full_doc, 80, initial_indent="      ", subsequent_indent="      ")
    yield f"  {len(unused_settings())} other settings of Apache Kafka have no effect or are refused: docs/options.md."


if __name__ == "__main__":
    sys.exit(main())
