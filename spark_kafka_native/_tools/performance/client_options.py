"""Options of the tools that name a cluster and the properties of a client, and the client's errors."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from spark_kafka_native._command_line.output import InvalidOption, ToolFailed
from spark_kafka_native._command_line.properties import parse_pairs, properties_in
from spark_kafka_native._net.errors import ConfigError
from spark_kafka_native._protocol.errors import KafkaError
from spark_kafka_native._record_clients.errors import ClientClosed, NoOffset, QueueFull

SERVERS: Final = "--bootstrap-server"
_CLASSES: Final = frozenset({"key.serializer", "value.serializer", "key.deserializer", "value.deserializer"})
"""Files for Apache Kafka's tools have them. The tools measure bytes."""


class ClientOptions:
    """The properties of a client, and the options that have set them. Later ones replace earlier ones."""

    def __init__(self) -> None:
        self.properties: dict[str, str] = {}
        self._origins: dict[str, str] = {}

    def add(self, origin: str, properties: Mapping[str, str]) -> None:
        """Set properties, by an option of the command line."""
        for name, value in properties.items():
            key = name.strip()
            if key not in _CLASSES:
                self.properties[key] = value
                self._origins[key.lower()] = origin

    def add_file(self, option: str, path: Path | None) -> None:
        """Set the properties of a file. Raises ToolFailed: it cannot be read."""
        if path is not None:
            self.add(f"{option} {path}", properties_in(path, option))

    def add_pairs(self, option: str, pairs: Sequence[str]) -> None:
        """Set ``KEY=VALUE``. Raises InvalidOption."""
        self.add(option, parse_pairs(pairs, option))

    @contextmanager
    def naming(self) -> Iterator[None]:
        """Name the option in errors of its properties, and turn a client's errors into ToolFailed."""
        try:
            yield
        except ConfigError as error:
            origin = self._origins.get(error.option.lower(), "")
            if not origin and error.option in {"bootstrap.servers", "metadata.broker.list"}:
                origin = SERVERS
            text = error.message if origin == SERVERS else str(error)
            raise InvalidOption(f"{origin}: {text}" if origin else text) from error
        except (KafkaError, ClientClosed, NoOffset, QueueFull) as error:
            raise ToolFailed(str(error)) from error
