"""The entities that ``kafka-configs.sh`` describes and alters: ``--entity-type users --entity-name alice``."""

import argparse
import dataclasses
from collections.abc import Sequence
from typing import Final

from spark_kafka_native._tools.options import ToolParser
from spark_kafka_native._tools.output import ToolError

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


def add_entities(parser: ToolParser) -> None:
    """Add the options for ``read_entities``."""
    parser.add_argument("--entity-type", action="append", dest="entity_types", help=f"one of {', '.join(TYPES)}")
    parser.add_argument(
        "--entity-name", action="append", dest="entity_names", metavar="NAME", help="the name of the entity"
    )
    parser.allow_empty("--entity-name")
    text = "the default of the entity type"
    parser.add_argument("--entity-default", action="append_const", const=None, dest="entity_names", help=text)
    for plural, singular in TYPES.items():
        text = f"short for --entity-type {plural} --entity-name NAME"
        parser.add_argument(f"--{singular}", metavar="NAME", help=text)
    for plural in _WITH_DEFAULT:
        text = f"short for --entity-type {plural} --entity-default"
        parser.add_argument(f"--{TYPES[plural]}-defaults", action="store_true", help=text)


def read_entities(options: argparse.Namespace) -> tuple[Entity, ...]:
    """The entity that the options name, or a user and a client. Raises ToolError."""
    found = _by_type(options.entity_types or (), options.entity_names or ())
    short = [Entity(kind, name) for kind, one in TYPES.items() if (name := getattr(options, one)) is not None]
    short += [Entity(kind, None, True) for kind in _WITH_DEFAULT if getattr(options, f"{TYPES[kind]}_defaults")]
    if found and short:
        raise ToolError(f"--entity-type cannot be combined with --{TYPES[short[0].type]}")
    found = sorted(found or short, key=lambda entity: entity.type == "clients")  # Kafka's order: user, client
    types = [entity.type for entity in found]
    if not types:
        raise ToolError(f"--entity-type: one of {', '.join(TYPES)} is required")
    if len(types) > 1 and types != ["users", "clients"]:
        raise ToolError(f"--entity-type: {' and '.join(types)} cannot be given together, only users and clients")
    if options.alter and any(entity.is_all for entity in found):
        raise ToolError("--entity-name is required with --alter")
    return tuple(found)


def _by_type(types: Sequence[str], names: Sequence[str | None]) -> list[Entity]:
    """The names belong to the types in the order of the options. Types after the last name stand for all.

    An empty name is the default of the type, as in Kafka's tool.
    """
    if len(names) > len(types):
        raise ToolError("--entity-type: each --entity-name and --entity-default needs one")
    unknown = sorted(set(types) - TYPES.keys())
    if unknown:
        raise ToolError(f"--entity-type: {unknown[0]} is not one of {', '.join(TYPES)}")
    named = [Entity(kind, name or None, not name) for kind, name in zip(types, names, strict=False)]
    return named + [Entity(kind) for kind in types[len(names) :]]
