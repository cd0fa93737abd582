"""What ``kafka-dump-log`` prints of batches, records and entries: as Apache Kafka's tool does, or as JSON."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from spark_kafka_native._command_line.output import say, say_json

_OPTIONAL_LONGS: Final = frozenset({"deleteHorizonMs", "currentTxnFirstOffset"})
"""Fields that Apache Kafka's tool prints as Java does."""


class DumpOutput:
    """Prints fields by their names. JSON has an object for each batch, record and entry, with the name of its file."""

    def __init__(self, *, as_json: bool) -> None:
        self._as_json = as_json
        self._file = ""

    def begin(self, file: str) -> None:
        """Name the file of the following output."""
        self._file = file
        self.note(f"Dumping {file}")

    def note(self, text: str) -> None:
        """Print a line that is for readers only."""
        if not self._as_json:
            say(text)

    def fields(self, fields: Mapping[str, object], *, prefix: str = "", kind: str = "entry") -> None:
        """Print a line. Only JSON has ``kind``, as ``type``, and only text has ``prefix``."""
        if self._as_json:
            say_json({"file": self._file, "type": kind, **fields})
        else:
            say(" ".join([*filter(None, (prefix,)), *_words(fields)]))

    def producer(self, fields: Mapping[str, object], batches: Sequence[Mapping[str, object]]) -> None:
        """Print the entry of a producer with its last batches, which follow on its line."""
        if self._as_json:
            say_json({"file": self._file, "type": "entry", **fields, "batches": batches})
        else:
            say(" ".join(word for each in (fields, *batches) for word in _words(each)))


def _words(fields: Mapping[str, object]) -> Iterator[str]:
    return (f"{name}: {_text(name, value)}" for name, value in fields.items())


def _text(name: str, value: object) -> str:
    if name in _OPTIONAL_LONGS:
        return "OptionalLong.empty" if value is None else f"OptionalLong[{value}]"
    if isinstance(value, bool):
        return str(value).lower()
    return f"[{','.join(value)}]" if isinstance(value, list) else str(value)
