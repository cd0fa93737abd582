"""Where look-up tables are: ``topic:NAME`` or ``file:/PATH``. Without numpy, which the driver does not need."""

from dataclasses import dataclass
from enum import StrEnum
from pathlib import PurePath
from typing import Self

from spark_kafka_native._protocol.topic import INTERNAL_TOPICS, topic_name_problem


class Kind(StrEnum):
    """What has the tables."""

    TOPIC = "topic"
    FILE = "file"


@dataclass(frozen=True, slots=True)
class TableLocation:
    """A compacted topic with a record for each table, or a file with all tables. ``str()`` is the user's form."""

    kind: Kind
    name: str

    @classmethod
    def parse(cls, text: str) -> Self:
        """Raises ValueError: the text is neither ``topic:NAME`` nor ``file:/PATH``."""
        kind, _, name = text.strip().partition(":")
        if kind == Kind.TOPIC:
            problem = topic_name_problem(name)
            if problem is None and name in INTERNAL_TOPICS:
                problem = f"{name} is an internal topic of Kafka"
            if problem is not None:
                raise ValueError(f"{text!r}: {problem}")
            return cls(Kind.TOPIC, name)
        if kind == Kind.FILE:
            if name.startswith("///"):
                name = name[2:]  # file:///PATH
            if not PurePath(name).is_absolute() or name.startswith("//"):
                raise ValueError(f"{text!r} must have an absolute path, as file:/var/lib/tables.json")
            return cls(Kind.FILE, name)
        raise ValueError(f"{text!r} must be topic:NAME or file:/PATH")

    def __str__(self) -> str:
        return f"{self.kind.value}:{self.name}"
