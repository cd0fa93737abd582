"""What is written through both connectors: SQL queries by the name of the case, and options of the sink."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

Options = Mapping[str, str]


@dataclass(frozen=True)
class Rows:
    """Rows to write; ``{topic}`` in the query stands for the connector's own topic."""

    query: str
    options: Options = field(default_factory=dict)
    option_topic: bool = True
    """Whether the topic is given as an option, too."""
    mode: str | None = "append"
    shows: str = ""
    """The features that these rows show."""


@dataclass(frozen=True)
class Refused:
    """Rows that both connectors refuse, what our error names, and the features that this shows."""

    rows: Rows
    names: str
    shows: str


_KEYS: Final = "CAST(concat(repeat('k', CAST(id % 23 AS INT)), id) AS BINARY) AS key"
_VALUE: Final = "concat('value ', id) AS value"
_STRUCT: Final = "named_struct('key', '{0}', 'value', {1})"


def _headers(*pairs: tuple[str, str]) -> str:
    return f"array({', '.join(_STRUCT.format(*pair) for pair in pairs)})"


_SOME_HEADERS: Final = _headers(("same", "binary('1')"), ("same", "binary('2')"), ("", "binary('')"), ("none", "NULL"))

WRITTEN: Final[Mapping[str, Rows]] = {
    "keys": Rows(f"SELECT {_KEYS}, {_VALUE} FROM range(300)", shows="sink.key sink.partitioner sink.batch"),
    "keys as strings, values as binary": Rows(
        "SELECT concat('klíč ', id) AS key, CAST(id AS STRING) || X'00FF' AS value FROM range(100)",
        shows="sink.key sink.value",
    ),
    "value alone": Rows(f"SELECT {_VALUE} FROM range(50)", shows="sink.value"),
    "nulls": Rows(
        "SELECT IF(id % 2 = 0, NULL, CAST('k' AS BINARY)) AS key, IF(id % 3 = 0, NULL, 'v') AS value,"
        " CAST(id % 4 AS INT) AS partition FROM range(24)",
        shows="sink.key sink.value",
    ),
    "partition, sometimes null": Rows(
        f"SELECT {_KEYS}, {_VALUE}, IF(id % 3 = 0, NULL, CAST(id % 4 AS INT)) AS partition FROM range(60)",
        shows="sink.partition sink.partitioner",
    ),
    "headers": Rows(
        f"SELECT {_KEYS}, {_VALUE}, IF(id % 3 = 0, NULL, {_SOME_HEADERS}) AS headers FROM range(30)",
        shows="sink.headers",
    ),
    "topic in a column": Rows(
        f"SELECT '{{topic}}' AS topic, {_KEYS}, {_VALUE} FROM range(20)", option_topic=False, shows="sink.topicColumn"
    ),
    "topic as option and in a column": Rows(
        f"SELECT 'nowhere' AS topic, {_KEYS}, {_VALUE} FROM range(20)", shows="sink.topic"
    ),
    "other columns": Rows(f"SELECT {_KEYS}, {_VALUE}, id, 'x' AS offset FROM range(20)", shows="sink.extraColumns"),
    "columns in capitals": Rows("SELECT 'a key' AS KEY, 'v' AS value FROM range(8)", shows="sink.key"),
    "large values, small buffer": Rows(
        f"SELECT {_KEYS}, repeat('x', 15000) AS value FROM range(200)",
        {"kafka.buffer.memory": "65536", "kafka.batch.size": "14336"},
        shows="sink.client",
    ),
    "settings of the producer": Rows(
        f"SELECT {_KEYS}, {_VALUE} FROM range(100)",
        {"kafka.compression.type": "zstd", "kafka.acks": "1", "kafka.linger.ms": "3", "kafka.batch.size": "900"},
        shows="sink.client",
    ),
}

_ROW: Final = "SELECT 'k' AS key, 'v' AS value"

REFUSED: Final[Mapping[str, Refused]] = {
    "sink: no value": Refused(Rows("SELECT 'k' AS key"), "value", "sink.value"),
    "sink: value of another type": Refused(Rows("SELECT 1 AS value"), "value", "sink.types"),
    "sink: key of another type": Refused(Rows("SELECT 1 AS key, 'v' AS value"), "key", "sink.types"),
    "sink: headers of another type": Refused(Rows(f"{_ROW}, array(1) AS headers"), "headers", "sink.types"),
    "sink: partition of another type": Refused(Rows(f"{_ROW}, '1' AS partition"), "partition", "sink.types"),
    "sink: a partition that is not there": Refused(
        Rows(f"{_ROW}, 99 AS partition", {"kafka.max.block.ms": "1000"}), "99", "sink.partition"
    ),
    "sink: topic of another type": Refused(Rows(f"{_ROW}, 1 AS topic", option_topic=False), "topic", "sink.types"),
    "sink: no topic": Refused(Rows(_ROW, option_topic=False), "topic", "sink.topicColumn"),
    "sink: null topic": Refused(
        Rows(f"{_ROW}, CAST(NULL AS STRING) AS topic", option_topic=False), "topic", "sink.topicColumn"
    ),
    "sink: null header key": Refused(
        Rows(f"{_ROW}, array(named_struct('key', CAST(NULL AS STRING), 'value', binary('x'))) AS headers"),
        "header",
        "sink.headers",
    ),
    "sink: a topic that is not there": Refused(
        Rows(f"{_ROW}, 'missing' AS topic", {"kafka.max.block.ms": "1000"}, option_topic=False),
        "missing",
        "sink.missingTopic",
    ),
    "sink: key.serializer": Refused(Rows(_ROW, {"kafka.key.serializer": "A"}), "key.serializer", "client.serializers"),
    "sink: value.serializer": Refused(
        Rows(_ROW, {"kafka.value.serializer": "A"}), "value.serializer", "client.serializers"
    ),
    "sink: no servers": Refused(
        Rows(_ROW, {"kafka.bootstrap.servers": ""}), "kafka.bootstrap.servers", "sink.bootstrapServers"
    ),
    "sink: a record too large": Refused(
        Rows("SELECT repeat('x', 3000) AS value", {"kafka.max.request.size": "2000"}), "max.request.size", "sink.errors"
    ),
    "sink: acks": Refused(Rows(_ROW, {"kafka.acks": "2"}), "acks", "sink.client"),
    "sink: overwrite": Refused(Rows(_ROW, mode="overwrite"), "overwrite", "sink.saveModes"),
    "sink: ignore": Refused(Rows(_ROW, mode="ignore"), "ignore", "sink.saveModes"),
    "sink: no mode": Refused(Rows(_ROW, mode=None), "ErrorIfExists", "sink.saveModes"),
}
