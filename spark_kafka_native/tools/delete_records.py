"""``kafka-delete-records.sh``: let partitions start later."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from spark_kafka_native.client.delete_records import delete_records
from spark_kafka_native.protocol.errors import KafkaError
from spark_kafka_native.protocol.topic import TopicPartition
from spark_kafka_native.tools.connection import ToolError, ToolParser, open_cluster, refuse, say

_TOOL: Final = "kafka-delete-records"


def main(arguments: Sequence[str]) -> int:
    """Delete records before offsets; the exit status. 0: done. 1: the cluster refused it. 2: a bad option."""
    parser = ToolParser(_TOOL, "Delete the records before given offsets.")
    parser.add_cluster()
    parser.add_argument(
        "--offset-json-file",
        required=True,
        type=Path,
        metavar="FILE",
        help='{"partitions": [{"topic": "t", "partition": 0, "offset": 5}], "version": 1}; -1 is the high watermark',
    )
    options = parser.parse_args(arguments)
    try:
        before = read_offsets(options.offset_json_file)
        with open_cluster(options) as cluster:
            say("Executing records delete operation")
            done = delete_records(cluster, before)
            say("Records delete operation completed:")
            for partition, first_offset in sorted(done.items()):
                say(f"partition: {partition}\tlow_watermark: {first_offset}")
    except (ToolError, KafkaError) as error:
        return refuse(_TOOL, error)
    return 0


def read_offsets(path: Path) -> dict[TopicPartition, int]:
    """The offsets in a file of the form above. Raises ToolError naming the file."""
    try:
        content: Any = json.loads(path.read_text(encoding="utf-8"))
        if content.get("version", 1) != 1:
            raise ToolError(f"{path}: version {content['version']} is not known")
        offsets: dict[TopicPartition, int] = {}
        for entry in content["partitions"]:
            partition = TopicPartition(str(entry["topic"]), int(entry["partition"]))
            if partition in offsets:
                raise ToolError(f"{path}: {partition} is there twice")
            offsets[partition] = int(entry["offset"])
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise ToolError(f"{path}: no partitions with topic, partition and offset can be read: {error}") from error
    return offsets
