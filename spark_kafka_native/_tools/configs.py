"""``kafka-configs.sh``: settings of topics, brokers and groups; quotas; users of SCRAM."""

from collections.abc import Sequence
from typing import Any, Final

from spark_kafka_native._client.admin.configs import (
    ConfigEntry,
    Resource,
    ResourceType,
    alter_configs,
    describe_configs,
)
from spark_kafka_native._client.cluster.cluster import Cluster
from spark_kafka_native._command_line.commands import Options
from spark_kafka_native._command_line.output import InvalidOption, say, say_json
from spark_kafka_native._command_line.parameters import PATH, flag, option
from spark_kafka_native._command_line.properties import parse_pairs, properties_in
from spark_kafka_native._tools.config_entities import Entity, entity_options, read_entities
from spark_kafka_native._tools.connection import on_cluster
from spark_kafka_native._tools.options import (
    ACTIONS,
    cluster_options,
    command,
    split_list,
)
from spark_kafka_native._tools.quota_configs import alter_client, describe_client
from spark_kafka_native._tools.tables import json_flag

_TYPES: Final = {"topics": ResourceType.TOPIC, "brokers": ResourceType.BROKER, "groups": ResourceType.GROUP}
_ENTITY_TYPES: Final = {kind: name for name, kind in _TYPES.items()}


@command(
    "kafka-configs",
    "Describe and alter settings of topics, brokers and groups, quotas, and SCRAM users.",
    """\
examples
  {command} --bootstrap-server localhost:9092 --describe --topic events --all
  {command} --bootstrap-server localhost:9092 --alter --topic events --add-config retention.ms=3600000
  {command} --bootstrap-server localhost:9092 --alter --client etl --add-config consumer_byte_rate=1048576""",
)
@flag("--alter", group=ACTIONS, help="change settings")
@flag("--describe", group=ACTIONS, help="print settings")
@flag("--all", help="with --describe: print all settings, not only those that were set")
@option(
    "--add-config",
    metavar="K=V,K=[V,V]",
    help="settings to set; for users also SCRAM-SHA-256=[iterations=N,password=TEXT]",
)
@option("--add-config-file", type=PATH, metavar="FILE", help="a properties file with settings to set")
@option(
    "--delete-config",
    multiple=True,
    metavar="K,K",
    help="settings to delete, so that their defaults apply; the option can be repeated",
)
@entity_options
@json_flag
@cluster_options()
@on_cluster
def configs(cluster: Cluster, options: Options) -> None:
    """Describe or alter one entity."""
    if options.as_json and not options.describe:
        raise InvalidOption("--json is an option of --describe")
    entities = read_entities(options)
    if options.describe:
        _describe(cluster, entities, show_all=options.all, as_json=options.as_json)
    else:
        _alter(cluster, entities, *_changes(options))
        say(f"Completed updating {entities[-1]}.")


def _changes(options: Options) -> tuple[dict[str, str | None], list[str]]:
    added: dict[str, str | None] = {}
    if options.add_config_file:
        added.update(properties_in(options.add_config_file, "--add-config-file"))
    if options.add_config:
        added.update(parse_pairs(split_list(options.add_config), "--add-config"))
    deleted = split_list(",".join(options.delete_config))
    both = sorted(added.keys() & set(deleted))
    if both:
        raise InvalidOption(f"--add-config and --delete-config both name {', '.join(both)}")
    if not added and not deleted:
        raise InvalidOption("--alter needs --add-config, --add-config-file or --delete-config")
    return added, deleted


def _resource(kind: ResourceType, entity: Entity) -> Resource:
    if entity.is_default and kind is not ResourceType.BROKER:
        raise InvalidOption(
            f"--entity-default (or an empty name) is for brokers, users, clients and ips, not for {entity.type}"
        )
    name = entity.name or ""
    if kind is ResourceType.BROKER and name and not name.isdigit():
        raise InvalidOption(f"--entity-name: {name!r} is not the id of a broker, which is a number")
    return Resource(type=kind, name=name)


def _resources(cluster: Cluster, kind: ResourceType, entity: Entity) -> list[Resource]:
    """The entity, or for all of a type each of them."""
    if not entity.is_all:
        return [_resource(kind, entity)]
    if kind is ResourceType.GROUP:
        raise InvalidOption("--entity-name is required for groups")
    metadata = cluster.metadata()
    names = [*map(str, sorted(metadata.brokers)), ""] if kind is ResourceType.BROKER else sorted(metadata.topics)
    return [Resource(type=kind, name=name) for name in names]


def _alter(cluster: Cluster, entities: Sequence[Entity], added: dict[str, str | None], deleted: Sequence[str]) -> None:
    kind = _TYPES.get(entities[0].type)
    if kind is None:
        alter_client(cluster, entities, added, deleted)
    else:
        alter_configs(cluster, _resource(kind, entities[0]), added | dict.fromkeys(deleted))


def _describe(cluster: Cluster, entities: Sequence[Entity], *, show_all: bool, as_json: bool) -> None:
    kind = _TYPES.get(entities[0].type)
    if kind is None:
        describe_client(cluster, entities, as_json=as_json)
        return
    for resource in _resources(cluster, kind, entities[0]):
        entries = [
            entry
            for _, entry in sorted(describe_configs(cluster, resource).items())
            if show_all or entry.is_set_on(resource.type) or (resource.name == "" and not entry.read_only)
        ]
        if as_json:
            for entry in entries:
                say_json(_record(resource, entry))
            continue
        if resource.name:
            say(f"{'All' if show_all else 'Dynamic'} configs for {resource} are:")
        else:
            say("Default configs for brokers in the cluster are:")
        for entry in entries:
            say(f"  {_line(entry)}")


def _record(resource: Resource, entry: ConfigEntry) -> dict[str, Any]:
    """A setting in JSON."""
    return {
        "entityType": _ENTITY_TYPES[resource.type],
        "entityName": resource.name or None,
        "name": entry.name,
        "value": entry.value,
        "source": entry.source.name,
        "readOnly": entry.read_only,
        "sensitive": entry.sensitive,
        "synonyms": [{"source": source.name, "name": name, "value": value} for source, name, value in entry.synonyms],
    }


def _line(entry: ConfigEntry) -> str:
    synonyms = ", ".join(f"{source.name}:{name}={value}" for source, name, value in entry.synonyms)
    return f"{entry.name}={entry.value} sensitive={str(entry.sensitive).lower()} synonyms={{{synonyms}}}"
