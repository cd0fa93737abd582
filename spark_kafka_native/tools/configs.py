"""``kafka-configs.sh``: settings of topics and brokers."""

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from broker_embedded.settings import read_properties
from spark_kafka_native.client.cluster import Cluster
from spark_kafka_native.client.configs import ConfigEntry, Resource, ResourceType, alter_configs, describe_configs
from spark_kafka_native.protocol.errors import KafkaError
from spark_kafka_native.tools.connection import ToolError, ToolParser, open_cluster, refuse, say
from spark_kafka_native.tools.properties import parse_pairs, split_list

_TOOL: Final = "kafka-configs"
_TYPES: Final = {"topics": ResourceType.TOPIC, "brokers": ResourceType.BROKER, "groups": ResourceType.GROUP}


def main(arguments: Sequence[str]) -> int:
    """Describe or alter settings; the exit status. 0: done. 1: the cluster refused it. 2: a bad option."""
    options = _parser().parse_args(arguments)
    try:
        kind, names = _entity(options)
        changes = _changes(options) if options.alter else {}
        with open_cluster(options) as cluster:
            for resource in _resources(cluster, kind, names):
                if options.alter:
                    alter_configs(cluster, resource, changes)
                    say(f"Completed updating config for {_words(resource)}.")
                else:
                    _describe(cluster, resource, show_all=options.all)
    except (ToolError, ValueError, OSError) as error:
        return refuse(_TOOL, ToolError(str(error)))
    except KafkaError as error:
        return refuse(_TOOL, error)
    return 0


def _parser() -> ToolParser:
    parser = ToolParser(_TOOL, "Describe and alter the settings of topics, brokers and groups.")
    parser.add_cluster()
    actions = parser.add_mutually_exclusive_group(required=True)
    actions.add_argument("--alter", action="store_true", help="change settings")
    actions.add_argument("--describe", action="store_true", help="print settings")
    parser.add_argument("--all", action="store_true", help="with --describe: those that were not set as well")
    parser.add_argument("--add-config", metavar="K=V,K=[V,V]", help="settings to set")
    parser.add_argument("--add-config-file", metavar="FILE", type=Path, help="a properties file with settings to set")
    parser.add_argument("--delete-config", metavar="K,K", help="settings to put back to their defaults")
    parser.add_argument("--entity-type", choices=[*_TYPES, "users", "clients", "ips", "broker-loggers"], help="of what")
    parser.add_argument("--entity-name", help="of which one; by default of all topics")
    parser.add_argument("--entity-default", action="store_true", help="the default of all brokers")
    for singular, plural in (("--topic", "topics"), ("--broker", "brokers"), ("--group", "groups")):
        parser.add_argument(singular, metavar="NAME", help=f"short for --entity-type {plural} --entity-name NAME")
    parser.add_argument("--broker-defaults", action="store_true", help="short for brokers with --entity-default")
    return parser


def _entity(options: argparse.Namespace) -> tuple[ResourceType, list[str]]:
    """What has the settings, and which ones of it; no name stands for all."""
    if options.broker_defaults:
        return ResourceType.BROKER, [""]
    for kind, name in (
        (ResourceType.TOPIC, options.topic),
        (ResourceType.BROKER, options.broker),
        (ResourceType.GROUP, options.group),
    ):
        if name is not None:
            return kind, [name]
    if options.entity_type is None:
        raise ToolError("--entity-type: say of what: topics, brokers or groups")
    if options.entity_type not in _TYPES:
        raise ToolError(f"--entity-type: {options.entity_type} have no settings that this tool knows of")
    kind = _TYPES[options.entity_type]
    if options.entity_default:
        if kind is not ResourceType.BROKER:
            raise ToolError("--entity-default: only brokers have settings in common")
        return kind, [""]
    if options.entity_name is None and (options.alter or kind is not ResourceType.TOPIC):
        raise ToolError("--entity-name: say which one")
    return kind, [] if options.entity_name is None else [options.entity_name]


def _changes(options: argparse.Namespace) -> dict[str, str | None]:
    added: dict[str, str | None] = {}
    if options.add_config_file:
        added.update(read_properties(options.add_config_file))
    if options.add_config:
        added.update(parse_pairs(split_list(options.add_config), "--add-config"))
    deleted = split_list(options.delete_config or "")
    both = sorted(added.keys() & set(deleted))
    if both:
        raise ToolError(f"--delete-config: {', '.join(both)} shall be set and deleted")
    if not added and not deleted:
        raise ToolError("--alter needs --add-config, --add-config-file or --delete-config")
    return added | dict.fromkeys(deleted)


def _resources(cluster: Cluster, kind: ResourceType, names: Sequence[str]) -> list[Resource]:
    if not names:
        names = sorted(cluster.metadata().topics)
    if kind is ResourceType.BROKER and not all(name.isdigit() or not name for name in names):
        raise ToolError(f"--entity-name: {names[0]!r} is not a broker's id")
    return [Resource(type=kind, name=name) for name in names]


def _describe(cluster: Cluster, resource: Resource, *, show_all: bool) -> None:
    entries = describe_configs(cluster, resource).values()
    say(f"{'All' if show_all else 'Dynamic'} configs for {_words(resource)} are:")
    for entry in sorted(entries, key=lambda entry: entry.name):
        if show_all or entry.is_set_on(resource.type) or (resource.name == "" and not entry.read_only):
            say(f"  {_line(entry)}")


def _line(entry: ConfigEntry) -> str:
    synonyms = ", ".join(f"{source.name}:{name}={value}" for source, name, value in entry.synonyms)
    return f"{entry.name}={entry.value} sensitive={str(entry.sensitive).lower()} synonyms={{{synonyms}}}"


def _words(resource: Resource) -> str:
    if not resource.name:
        return "the default brokers"
    return f"{resource.type.name.lower()} {resource.name}"
