"""The command line of the job."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from spark_kafka_native._command_line.commands import Options
from spark_kafka_native._command_line.parameters import PATH, POSITIVE, OptionGroup, flag, option, together
from spark_kafka_native._command_line.properties import parse_pairs, properties_in
from spark_kafka_native._jobs.batch_reload.errors import UsageError
from spark_kafka_native._jobs.batch_reload.formats import COMPRESSIONS
from spark_kafka_native._jobs.batch_reload.storage.location import StorageLocation
from spark_kafka_native._jobs.points import Point, parse_offsets, point_of
from spark_kafka_native._net.errors import ConfigError
from spark_kafka_native._protocol.nearest import did_you_mean
from spark_kafka_native._spark.errors import OptionError

DEFAULT_KEEP_VERSIONS: Final = 10
DEFAULT_LEASE_MINUTES: Final = 60

ABOUT: Final = """\
Load topics into files, each record exactly once. Any other Spark format gets the records at least once.

Each run loads the records since the last one. If a run fails or is killed, start it again; there is no duplicate and no
gap."""

EXAMPLES: Final = """\
what to load
  By default a run begins where the last one ended, and the first run at the first record. New partitions begin at
  their first record. --from and --from-offsets load again from a point, into a new version that replaces the files
  after that point; files before it are kept. A point within a file moves to the file's beginning.

file formats: parquet, orc, avro, json, csv, text
  EXACTLY ONCE. Files of a run are in TARGET/_loads/<load id>/. They are part of the load once
  TARGET/_manifests/<version>.json names them: that file is created atomically, by one run only. Read a load with
      from spark_kafka_native import load_dataframe
      load_dataframe(spark, "TARGET")
  TARGET is a directory that all of Spark's nodes share, or s3://, gs://, abfs:// with the packages fsspec and s3fs,
  gcsfs or adlfs.

other formats: those of df.write.format(...), such as jdbc, delta or iceberg
  AT LEAST ONCE. Rows are appended with a column load_id. If a run fails between writing its rows and its manifest, the
  next one writes the same records again with another load_id. The valid ids are in the history of the manifest in
  --state.

examples, also with spark-submit jobs/batch_reload.py
  {command} --bootstrap-servers k1:9092 --topics events,clicks --target /data/raw
  {command} ... --dry-run
  {command} ... --from 2026-11-20T00:00:00Z        # load again from that time on
  {command} ... --from -2h --until -1h             # an hour of it
  {command} ... --from-offsets '{"events":{"0":4000}}'
  {command} ... --verify
  {command} --target /data/raw --clean
  {command} ... --format jdbc --state /data/state --table events --columns key,value,offset \\
      --write-option url=jdbc:postgresql://db/raw

exit status
  0 done, or nothing to do   1 it failed, or --verify found errors; no part of a failed load is visible
  2 a bad option, or a target that belongs to another program or cannot be written
  3 another run published the same partitions meanwhile; run it again
  130 interrupted; the last line says whether a version was published, which is complete then"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Arguments:
    """The parsed command line, validated without the cluster and the target."""

    source_options: tuple[tuple[str, str], ...]
    """Of the data source, with the cluster and, if given, the subscription."""
    start: Point | None
    """None: since the last run."""
    start_option: str
    """The option that names it: --from or --from-offsets."""
    until: Point | None
    location: StorageLocation
    """Of manifests and files."""
    location_option: str
    """The option that names it: --target or --state."""
    target: str | None
    table: str | None
    format: str | None
    compression: str | None
    columns: tuple[str, ...]
    """Empty: all, or as before."""
    as_string: frozenset[str]
    write_options: tuple[tuple[str, str], ...]
    min_tasks: int | None
    max_records_per_task: int | None
    accept_data_loss: bool
    action: str
    """load, dry-run, verify or clean."""
    version: int | None
    keep_versions: int
    lease_s: float
    as_json: bool
    origins: Mapping[str, str]
    """Option of the source, in lower case -> what the user has written for it."""

    def named(self, error: ConfigError | OptionError) -> UsageError:
        """The error with the option as the user has written it, if it is one of the command line or the file."""
        key = error.option.lower()
        origin = self.origins.get(key) or _GOVERNED.get(key)
        return UsageError(f"{origin}: {error.message}" if origin else str(error))

    def __repr__(self) -> str:
        return f"Arguments({self.action}, {self.location})"  # options may be secret


_GOVERNED: Final = {
    "subscribe": "--topics",
    "subscribepattern": "--topic-pattern",
    "assign": "--topics",
    "minpartitions": "--min-tasks",
    "maxrecordsperpartition": "--max-records-per-task",
    "failondataloss": "--accept-data-loss",
    "includeheaders": "--columns",
    "kafka.bootstrap.servers": "--bootstrap-servers",
}
_WHICH_RECORDS: Final = {
    "start": "--from",
    "from_offsets": "--from-offsets",
    "since_last_run": "--since-last-run",
    "until": "--until",
    "accept_data_loss": "--accept-data-loss",
    "min_tasks": "--min-tasks",
    "max_records_per_task": "--max-records-per-task",
}
_POSITION: Final = re.compile(r"(starting|ending)(offsets|timestamp).*")


def parse_arguments(given: Options) -> Arguments:
    """The values of ``reload_options``. Raises UsageError, InvalidOption, ToolFailed."""
    action = next((name for name in ("dry-run", "verify", "clean") if getattr(given, name.replace("-", "_"))), "load")
    other = given.format is not None and given.format not in COMPRESSIONS
    _check(given, action, other=other)
    properties = _properties(given)
    return Arguments(
        source_options=tuple(_source_options(given, action, properties).items()),
        start=point_of("--from-offsets", given.from_offsets, parse_offsets) or point_of("--from", given.start),
        start_option="--from-offsets" if given.from_offsets else "--from",
        until=point_of("--until", given.until),
        location_option="--state" if given.state else "--target",
        location=StorageLocation(
            url=given.state or given.target,
            options=_pairs(given.storage_option, "--storage-option"),
        ),
        target=given.target,
        table=given.table,
        format=given.format,
        compression=given.compression,
        columns=tuple(name.strip() for name in (given.columns or "").split(",") if name.strip()),
        as_string=frozenset(
            name for name, chosen in (("key", given.key_as_string), ("value", given.value_as_string)) if chosen
        ),
        write_options=_pairs(given.write_option, "--write-option"),
        min_tasks=given.min_tasks,
        max_records_per_task=given.max_records_per_task,
        accept_data_loss=given.accept_data_loss,
        action=action,
        version=given.version,
        keep_versions=given.keep_versions,
        lease_s=given.lease_minutes * 60.0,
        as_json=given.as_json,
        origins=_origins(given, properties),
    )


_SOURCE: Final = OptionGroup("Source")
_TOPICS: Final = OptionGroup("Topics", exclusive=True)
_START: Final = OptionGroup("Begin", exclusive=True)
_RANGE: Final = OptionGroup("Which records")
_TARGET: Final = OptionGroup("Target")
_ACTIONS: Final = OptionGroup("Instead of loading", exclusive=True)
_OF_ACTIONS: Final = OptionGroup("Options of --verify and --clean")

reload_options = together(
    option("--bootstrap-servers", "--bootstrap-server", metavar="HOST:PORT,...", group=_SOURCE, help="the cluster"),
    option(
        "--option",
        metavar="K=V",
        multiple=True,
        group=_SOURCE,
        help="an option of the source, such as kafka.security.protocol=SSL; kafka.isolation.level is read_committed "
        "unless it is given here",
    ),
    option(
        "--properties-file", metavar="FILE", type=PATH, group=_SOURCE, help="a file with properties of a Kafka client"
    ),
    option("--topics", metavar="A,B", group=_TOPICS, help="topics to load"),
    option("--topic-pattern", metavar="REGEX", group=_TOPICS, help="topics in whose name the expression is found"),
    flag("--since-last-run", group=_START, help="begin where the last run ended (the default)"),
    option(
        "--from",
        "start",
        metavar="POINT",
        group=_START,
        help="load again from here on: 2026-11-20T10:00:00Z, epoch milliseconds, -2h (before now), earliest",
    ),
    option(
        "--from-offsets",
        metavar="JSON",
        group=_START,
        help='as --from, by offsets: {"a":{"0":23},"b":"earliest"}; other partitions continue at their positions',
    ),
    option(
        "--until",
        metavar="POINT",
        group=_RANGE,
        help="end at this point, written as for --from or --from-offsets (default: latest)",
    ),
    flag(
        "--accept-data-loss",
        group=_RANGE,
        help="continue after records that were deleted before they were loaded; the manifest names the gap",
    ),
    option("--min-tasks", metavar="N", type=POSITIVE, group=_RANGE, help="split large ranges, for at least N tasks"),
    option(
        "--max-records-per-task",
        metavar="N",
        type=POSITIVE,
        group=_RANGE,
        help="split ranges: at most N offsets per task and file",
    ),
    option(
        "--target",
        metavar="DIR",
        group=_TARGET,
        help="a directory or s3://, gs://, abfs://; for other formats: a path",
    ),
    option(
        "--format",
        metavar="NAME",
        group=_TARGET,
        help=f"{', '.join(COMPRESSIONS)}, or one that Spark knows (default: parquet)",
    ),
    option(
        "--compression",
        metavar="NAME",
        group=_TARGET,
        help="compression of the files (default: snappy for parquet and orc, deflate for avro, else none)",
    ),
    option(
        "--columns",
        metavar="A,B",
        group=_TARGET,
        help="columns to write, of key, value, topic, partition, offset, timestamp, timestampType, headers (default: "
        "all; text: value)",
    ),
    flag("--key-as-string", group=_TARGET, help="key as UTF-8 text rather than binary"),
    flag("--value-as-string", group=_TARGET, help="value as UTF-8 text rather than binary"),
    option(
        "--storage-option",
        metavar="K=V",
        multiple=True,
        group=_TARGET,
        help="an option of the object store's client in Python",
    ),
    option("--state", metavar="DIR", group=_TARGET, help="for other formats: the directory for positions"),
    option(
        "--table",
        metavar="NAME",
        group=_TARGET,
        help="for other formats: a table of Spark's catalog, in place of a path",
    ),
    option(
        "--write-option",
        metavar="K=V",
        multiple=True,
        group=_TARGET,
        help="for other formats: an option of df.write",
    ),
    flag("--dry-run", group=_ACTIONS, help="print what would be loaded, with counts"),
    flag(
        "--verify",
        group=_ACTIONS,
        help="check the manifest, read the files again, and compare their counts with the topics. Ranges with deleted "
        "records and recreated topics are not compared; brokers before Kafka 2.8 do not say that a topic was recreated",
    ),
    flag("--clean", group=_ACTIONS, help="remove files that no version names, and versions that are not kept"),
    option(
        "--version",
        metavar="N",
        type=POSITIVE,
        group=_OF_ACTIONS,
        help="for --verify: the version to check (default: the latest)",
    ),
    option(
        "--keep-versions",
        metavar="N",
        type=POSITIVE,
        default=DEFAULT_KEEP_VERSIONS,
        show_default=True,
        group=_OF_ACTIONS,
        help="for --clean: the number of latest versions to keep",
    ),
    option(
        "--lease-minutes",
        metavar="N",
        type=POSITIVE,
        default=DEFAULT_LEASE_MINUTES,
        show_default=True,
        group=_OF_ACTIONS,
        help="for --clean: delete files of runs that have not renewed their lease for N minutes",
    ),
    flag("--json", "as_json", help="print the result as JSON, and nothing else on stdout"),
)


def _check(given: Options, action: str, *, other: bool) -> None:
    if given.target is None and not other:
        raise UsageError("--target is required: the location of the load")
    if action != "clean" and given.bootstrap_servers is None:
        raise UsageError("--bootstrap-servers is required")
    if given.version is not None and action != "verify":
        raise UsageError("--version: only --verify has this option; a load reads and extends the latest version")
    for name, written in _WHICH_RECORDS.items():
        if getattr(given, name) not in {None, False} and action in {"verify", "clean"}:
            raise UsageError(f"{written}: only a load and --dry-run have this option")
    if action in {"load", "dry-run"} and given.topics is None and given.topic_pattern is None:
        raise UsageError("--topics or --topic-pattern is required")
    if other:
        _check_other(given)
    else:
        _check_files(given)


def _check_other(given: Options) -> None:
    if given.state is None:
        name = given.format
        if suggestion := did_you_mean(name, COMPRESSIONS):
            raise UsageError(
                f"--format: {name} is not a file format of this job{suggestion} Spark's formats need --state"
            )
        raise UsageError(f"--state is required for positions: {name} is not a file format of this job")
    if given.table is not None and given.target is not None:
        raise UsageError("--table and --target cannot be used together; give one of them")
    if given.compression is not None:
        raise UsageError(f"--compression has an effect only with file formats; use --write-option for {given.format}")


def _check_files(given: Options) -> None:
    for name in ("state", "table", "write_option"):
        if getattr(given, name):
            option = name.replace("_", "-")
            raise UsageError(f"--{option} has an effect only with formats other than {', '.join(COMPRESSIONS)}")


def _origins(given: Options, properties: Iterable[str]) -> dict[str, str]:
    in_file = {_option_of(key): f"--properties-file {given.properties_file}: {key}" for key in properties}
    in_options = {key: f"--option {key}" for key, _ in _pairs(given.option, "--option")}
    return {name.lower(): origin for name, origin in (in_file | in_options).items()}


def _properties(given: Options) -> dict[str, str]:
    """The entries of --properties-file. It may be a pipe, such as ``<(...)`` of a shell, which can be read once."""
    return {} if given.properties_file is None else properties_in(given.properties_file, "--properties-file")


def _option_of(key: str) -> str:
    """The option of the source for a property of a Kafka client."""
    return f"kafka.{key.removeprefix('kafka.')}"


def _source_options(given: Options, action: str, properties: Mapping[str, str]) -> dict[str, str]:
    options: dict[str, str] = {"kafka.isolation.level": "read_committed"}
    options |= {_option_of(key): value for key, value in properties.items()}
    for key, value in _pairs(given.option, "--option"):
        if (governor := _GOVERNED.get(key.lower())) or _POSITION.fullmatch(key.lower()):
            raise UsageError(f"--option {key}: use {governor or '--from, --from-offsets and --until'}")
        options[key] = value
    if action == "clean":
        return options
    options["kafka.bootstrap.servers"] = given.bootstrap_servers
    if given.topic_pattern is not None:
        return options | {"subscribePattern": given.topic_pattern}
    return options | ({"subscribe": given.topics} if given.topics is not None else {})


def _pairs(items: Iterable[str], option: str) -> tuple[tuple[str, str], ...]:
    return tuple(parse_pairs(items, option, strip_values=False).items())
