"""``kafka-delete-records.sh``: delete the records of partitions before an offset."""

import json
from pathlib import Path
from typing import Any, Final, TypeVar

from spark_kafka_native._client.admin.delete_records import delete_records
from spark_kafka_native._client.cluster.cluster import Cluster
from spark_kafka_native._command_line.commands import Options
from spark_kafka_native._command_line.output import InvalidOption, ToolFailed, say, say_record
from spark_kafka_native._command_line.parameters import PATH, option
from spark_kafka_native._command_line.properties import file_error
from spark_kafka_native._protocol.topic import TopicPartition
from spark_kafka_native._tools.connection import on_cluster
from spark_kafka_native._tools.options import cluster_options, command
from spark_kafka_native._tools.tables import json_flag

_OPTION: Final = "--offset-json-file"
_KINDS: Final = {list: "a list", str: "a string", int: "an integer"}
_T = TypeVar("_T")


@command(
    "kafka-delete-records",
    "Delete the records of partitions before an offset.",
    """\
example
  echo '{"partitions": [{"topic": "events", "partition": 0, "offset": -1}], "version": 1}' > offsets.json
  {command} --bootstrap-server localhost:9092 --offset-json-file offsets.json""",
)
@option(
    _OPTION,
    required=True,
    type=PATH,
    metavar="FILE",
    help='{"partitions": [{"topic": "t", "partition": 0, "offset": 5}], "version": 1}; -1 is the high watermark',
)
@json_flag
@cluster_options()
@on_cluster
def delete_records_command(cluster: Cluster, options: Options) -> None:
    """Print the new first offset of each partition."""
    before = read_offsets(options.offset_json_file)
    if not options.as_json:
        say("Executing records delete operation")
    done = delete_records(cluster, before)
    if not options.as_json:
        say("Records delete operation completed:")
    for partition, first_offset in sorted(done.items()):
        record = {"topic": partition.topic, "partition": partition.partition, "lowWatermark": first_offset}
        say_record(record, f"partition: {partition}\tlow_watermark: {first_offset}", as_json=options.as_json)


def read_offsets(path: Path) -> dict[TopicPartition, int]:
    """The offsets in a file of the form above.

    Raises InvalidOption naming the file and the field; ToolFailed: it cannot be read.
    """
    where = f"{_OPTION} {path}"
    try:
        content: Any = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise ToolFailed(f"{where}: {file_error(error)}") from error
    except (ValueError, RecursionError) as error:
        raise InvalidOption(f"{where}: the file is not JSON: {error}") from error
    if not isinstance(content, dict):
        raise InvalidOption(f"{where}: the JSON is not an object with the field partitions")
    if content.get("version", 1) != 1:
        raise InvalidOption(f"{where}: the field version is {content['version']!r}; only 1 is known")
    offsets: dict[TopicPartition, int] = {}
    for at, entry in enumerate(_field(where, content, "partitions", list)):
        of_entry = f"{where}: partitions[{at}]"
        if not isinstance(entry, dict):
            raise InvalidOption(f"{of_entry} is not an object with topic, partition and offset")
        partition = TopicPartition(_field(of_entry, entry, "topic", str), _field(of_entry, entry, "partition", int))
        if partition in offsets:
            raise InvalidOption(f"{where}: partitions names {partition} twice")
        offsets[partition] = _field(of_entry, entry, "offset", int)
    return offsets


def _field(where: str, entry: dict[str, Any], name: str, kind: type[_T]) -> _T:
    """A field of an object. Raises InvalidOption naming it."""
    if name not in entry:
        raise InvalidOption(f"{where}: the field {name} is missing")
    value = entry[name]
    if not isinstance(value, kind) or isinstance(value, bool):
        raise InvalidOption(f"{where}: the field {name} is {json.dumps(value)}, not {_KINDS[kind]}")
    return value
