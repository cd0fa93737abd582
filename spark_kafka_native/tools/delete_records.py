"""``kafka-delete-records.sh``: delete the records of partitions before an offset."""

import argparse
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from spark_kafka_native.client.admin.delete_records import delete_records
from spark_kafka_native.client.cluster.cluster import Cluster
from spark_kafka_native.protocol.topic import TopicPartition
from spark_kafka_native.tools.connection import run
from spark_kafka_native.tools.options import ToolParser
from spark_kafka_native.tools.output import ToolError, ToolFailure, say

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
    parser.set_defaults(action=_delete)
    return run(parser, arguments)


def _delete(cluster: Cluster, options: argparse.Namespace) -> None:
    before = read_offsets(options.offset_json_file)
    say("Executing records delete operation")
    done = delete_records(cluster, before)
    say("Records delete operation completed:")
    for partition, first_offset in sorted(done.items()):
        say(f"partition: {partition}\tlow_watermark: {first_offset}")


def read_offsets(path: Path) -> dict[TopicPartition, int]:
    """The offsets in a file of the form above. Raises ToolError naming the file; ToolFailure: it cannot be read."""
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
    except (OSError, UnicodeDecodeError) as error:
        raise ToolFailure(f"{path}: {error}") from error
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise ToolError(f"{path}: no partitions with topic, partition and offset can be read: {error}") from error
    return offsets
