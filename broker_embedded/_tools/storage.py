"""``kafka-storage.sh``: format a data directory for a cluster before its broker is started."""

import argparse
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from broker_embedded._log.checkpoints import (
    META_PROPERTIES,
    CorruptCheckpoint,
    MetaProperties,
    read_meta_properties,
    write_meta_properties,
)
from broker_embedded._metadata.files.metadata_file import MetadataFileError
from broker_embedded._metadata.scram_users import add_users
from broker_embedded._platform.platform import Platform
from broker_embedded._security.first_users import FirstUserError, parse_first_users
from broker_embedded._tools.server_properties import StorageProperties, read_storage_properties
from spark_kafka_native._net.secret import Secret
from spark_kafka_native._protocol.ids import format_id, new_id
from spark_kafka_native._tools.options import ActionParser, ToolParser
from spark_kafka_native._tools.output import ToolError, ToolFailure, refuse, say

_TOOL: Final = "kafka-storage"


def main(arguments: Sequence[str]) -> int:
    """Format or describe a data directory; the exit status. 0: done. 1: it failed. 2: a bad option."""
    parser = ToolParser(_TOOL, "Format data directories for clusters, and describe them.")
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION", parser_class=ActionParser)
    actions.add_parser("random-uuid", help="print an id for a new cluster")
    info = actions.add_parser("info", help="print the cluster and the node of the data directory")
    made = actions.add_parser("format", help="format the data directory for a cluster")
    for action in (info, made):
        action.add_argument("--config", "-c", required=True, type=Path, metavar="FILE", help="server.properties")
    made.add_argument("--cluster-id", "-t", required=True, help="the cluster's id")
    made.add_argument(
        "--ignore-formatted", "-g", action="store_true", help="do nothing if the data directory is already formatted"
    )
    made.add_argument(
        "--add-scram",
        "-S",
        action="append",
        default=[],
        metavar="MECHANISM=[name=NAME,password=PASSWORD]",
        help="create this user of SCRAM",
    )
    made.add_argument(
        "--standalone", "-s", action="store_true", help="accepted without effect: the broker is the only controller"
    )
    made.add_argument(
        "--release-version", "-r", help="accepted without effect: all releases have the same data directory"
    )
    made.add_argument(
        "--feature", "-f", action="append", help="accepted without effect: features have the levels of the broker"
    )
    options = parser.parse_args(_with_joined_id(arguments))
    try:
        if options.action == "random-uuid":
            say(format_id(new_id()))
        elif options.action == "info":
            _info(read_storage_properties(options.config))
        else:
            _format(read_storage_properties(options.config), options)
    except (ToolError, FirstUserError) as error:
        return refuse(_TOOL, ToolError(str(error)))
    except (ToolFailure, OSError, CorruptCheckpoint, MetadataFileError) as error:
        return refuse(_TOOL, error)
    return 0


def _with_joined_id(arguments: Sequence[str]) -> list[str]:
    """Join ``-t ID`` to one argument, because argparse reads an id that begins with a dash as an option."""
    words = list(arguments)
    for at, word in enumerate(words[:-1]):
        if word in {"-t", "--cluster-id"}:
            words[at : at + 2] = [f"--cluster-id={words[at + 1]}"]
            break
    return words


def _format(storage: StorageProperties, options: argparse.Namespace) -> None:
    files = Platform().file_system
    users = parse_first_users(Secret(" ".join(options.add_scram)))
    path = os.path.join(storage.data_dir, META_PROPERTIES)
    if read_meta_properties(files, path) is not None:
        if options.ignore_formatted:
            say("All of the log directories are already formatted.")
            return
        raise ToolFailure(f"{storage.data_dir} is already formatted; --ignore-formatted keeps it as it is")
    Path(storage.data_dir).mkdir(parents=True, exist_ok=True)
    meta = MetaProperties(cluster_id=options.cluster_id, node_id=storage.node_id, directory_id=new_id())
    add_users(files, storage.data_dir, users)
    write_meta_properties(files, path, meta)
    say(f"Formatting {storage.data_dir} for cluster {options.cluster_id}.")


def _info(storage: StorageProperties) -> None:
    meta = read_meta_properties(Platform().file_system, os.path.join(storage.data_dir, META_PROPERTIES))
    if meta is None:
        raise ToolFailure(f"{storage.data_dir} is not formatted; format it with kafka-storage format")
    say(f"Found log directory: {storage.data_dir}")
    say(f"Found metadata: cluster.id={meta.cluster_id}, node.id={meta.node_id}")
