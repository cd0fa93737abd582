"""The entities that ``kafka-configs.sh`` describes and alters: ``--entity-type users --entity-name alice``."""

import dataclasses
from collections.abc import Sequence
from typing import Final

from spark_kafka_native._command_line.commands import Options
from spark_kafka_native._command_line.output import InvalidOption
from spark_kafka_native._command_line.parameters import OptionGroup, flag, option, together

TYPES: Final = {
    "topics": "topic",
    "brokers": "broker",
    "groups": "group",
    "users": "user",
    "clients": "client",
    "ips": "ip",
}
"""The types of entities, and the options that name one of them."""
_WITH_DEFAULT: Final = ("brokers", "users", "clients", "ips")


@dataclasses.dataclass(frozen=True, slots=True)
class Entity:
    """An entity of a type; without a name the default of the type, or all of them."""

    type: str
    name: str | None = None
    is_default: bool = False

    def __str__(self) -> str:
        if self.name is None:
            return f"default config for {self.type} in the cluster"
        return f"config for {TYPES[self.type]} {self.name}"

    @property
    def is_all(self) -> bool:
        """Whether it stands for all entities of its type and for their default."""
        return self.name is None and not self.is_default


_ENTITY: Final = OptionGroup("Entity")
# --entity-name and --entity-default share a list, because their order says to which type each belongs.
entity_options = together(
    option("--entity-type", "entity_types", multiple=True, group=_ENTITY, help=f"one of {', '.join(TYPES)}"),
    option(
        "--entity-name", "entity_names", multiple=True, may_be_empty=True, metavar="NAME", group=_ENTITY,
        help="the name of the entity",
    ),
    flag(
        "--entity-default", "entity_names", multiple=True, flag_value="", may_be_empty=True, group=_ENTITY,
        help="the default of the entity type",
    ),
    *(
        option(f"--{one}", metavar="NAME", group=_ENTITY, help=f"short for --entity-type {plural} --entity-name NAME")
        for plural, one in TYPES.items()
    ),
    *(
        flag(f"--{TYPES[plural]}-defaults", group=_ENTITY, help=f"short for --entity-type {plural} --entity-default")
        for plural in _WITH_DEFAULT
    ),
)  # fmt: skip
"""The options for ``read_entities``."""


def read_entities(options: Options) -> tuple[Entity, ...]:
    """The entity that the options name, or a user and a client. Raises InvalidOption."""
    found = _by_type(options.entity_types, options.entity_names)
    short = [Entity(kind, name) for kind, one in TYPES.items() if (name := getattr(options, one)) is not None]
    short += [Entity(kind, None, True) for kind in _WITH_DEFAULT if getattr(options, f"{TYPES[kind]}_defaults")]
    if found and short:
        raise InvalidOption(f"--entity-type cannot be combined with --{TYPES[short[0].type]}")
    found = sorted(found or short, key=lambda entity: entity.type == "clients")  # Kafka's order: user, client
    types = [entity.type for entity in found]
    if not types:
        raise InvalidOption(f"--entity-type: one of {', '.join(TYPES)} is required")
    if len(types) > 1 and types != ["users", "clients"]:
        raise InvalidOption(f"--entity-type: {' and '.join(types)} cannot be given together, only users and clients")
    if options.alter and any(entity.is_all for entity in found):
        raise InvalidOption("--entity-name is required with --alter")
    return tuple(found)


def _by_type(types: Sequence[str], names: Sequence[str]) -> list[Entity]:
    """The names belong to the types in the order of the options. Types after the last name stand for all.

    An empty name is the default of the type, as in Kafka's tool.
    """
    if len(names) > len(types):
        raise InvalidOption("--entity-type: each --entity-name and --entity-default needs one")
    unknown = sorted(set(types) - TYPES.keys())
    if unknown:
        raise InvalidOption(f"--entity-type: {unknown[0]} is not one of {', '.join(TYPES)}")
    named = [Entity(kind, name or None, not name) for kind, name in zip(types, names, strict=False)]
    return named + [Entity(kind) for kind in types[len(names) :]]
