"""``kafka-storage.sh``: format a data directory for a cluster before its broker is started."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import click

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
from broker_embedded._tools.server_properties import read_storage_properties
from spark_kafka_native._command_line.commands import Group
from spark_kafka_native._command_line.output import InvalidOption, ToolFailed, say, say_json
from spark_kafka_native._command_line.parameters import PATH, flag, option
from spark_kafka_native._net.secret import Secret
from spark_kafka_native._protocol.ids import format_id, new_id
from spark_kafka_native._tools.options import kafka_version
from spark_kafka_native._tools.tables import json_flag


@click.group(
    "kafka-storage",
    cls=Group,
    subcommand_metavar="ACTION ...",
    help="Format a data directory, and describe it.",
    epilog="""\
example
  {command} format --config server.properties --cluster-id "$({command} random-uuid)\"""",
)
@kafka_version
def storage() -> None:
    """The options are those of the action."""


_config_option = option("--config", "-c", required=True, type=PATH, metavar="FILE", help="server.properties")


@storage.command("random-uuid", help="Print an id for a new cluster.")
def _random_uuid() -> None:
    say(format_id(new_id()))


@storage.command("info", help="Print the cluster and the node of the data directory.")
@_config_option
@json_flag
def _info(config: Path, *, as_json: bool) -> None:
    with _failures():
        found = read_storage_properties(config)
        meta = read_meta_properties(Platform().file_system, os.path.join(found.data_dir, META_PROPERTIES))
    if meta is None:
        raise ToolFailed(f"{found.data_dir} is not formatted; format it with `pykafka storage format`")
    if as_json:
        say_json({"logDirectory": found.data_dir, "clusterId": meta.cluster_id, "nodeId": meta.node_id})
        return
    say(f"Found log directory: {found.data_dir}")
    say(f"Found metadata: cluster.id={meta.cluster_id}, node.id={meta.node_id}")


@storage.command("format", help="Format the data directory for a cluster.")
@_config_option
@option("--cluster-id", "-t", required=True, metavar="ID", help="the cluster's id")
@flag("--ignore-formatted", "-g", help="do nothing if the data directory is already formatted")
@option(
    "--add-scram",
    "-S",
    multiple=True,
    metavar="MECHANISM=[name=NAME,password=PASSWORD]",
    help="create this user of SCRAM",
)
@flag("--standalone", "-s", expose_value=False, help="accepted without effect: the broker is the only controller")
@option(
    "--release-version",
    "-r",
    expose_value=False,
    help="accepted without effect: all releases have the same data directory",
)
@option(
    "--feature",
    "-f",
    multiple=True,
    expose_value=False,
    help="accepted without effect: features have the levels of the broker",
)
def _format(config: Path, cluster_id: str, *, ignore_formatted: bool, add_scram: tuple[str, ...]) -> None:
    found = read_storage_properties(config)
    files = Platform().file_system
    path = os.path.join(found.data_dir, META_PROPERTIES)
    with _failures():
        users = parse_first_users(Secret(" ".join(add_scram)))
        if read_meta_properties(files, path) is not None:
            if ignore_formatted:
                say("All of the log directories are already formatted.")
                return
            raise ToolFailed(f"{found.data_dir} is already formatted; --ignore-formatted keeps it as it is")
        Path(found.data_dir).mkdir(parents=True, exist_ok=True)
        add_users(files, found.data_dir, users)
        write_meta_properties(
            files, path, MetaProperties(cluster_id=cluster_id, node_id=found.node_id, directory_id=new_id())
        )
    say(f"Formatting {found.data_dir} for cluster {cluster_id}.")


@contextmanager
def _failures() -> Iterator[None]:
    """Raise InvalidOption and ToolFailed for errors of the data directory and of users."""
    try:
        yield
    except FirstUserError as error:
        raise InvalidOption(str(error)) from error
    except (CorruptCheckpoint, MetadataFileError) as error:
        raise ToolFailed(str(error)) from error
