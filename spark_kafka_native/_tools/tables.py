"""Tables that tools print: as Apache Kafka's tools do, or as JSON, an object per row."""

import dataclasses
import re
from collections.abc import Iterable, Sequence
from typing import Any, Final, NamedTuple

from spark_kafka_native._command_line.output import say, say_json
from spark_kafka_native._command_line.parameters import flag
from spark_kafka_native._protocol.topic import TopicPartition, by_topic

_NONE: Final = "-"
_WORD: Final = re.compile("[A-Z]?[a-z]+|[A-Z]+(?![a-z])")
Cell = str | int | bool | None | Sequence[TopicPartition]
"""A value of a row. Text has partitions as ``a:0,1;b:2``, JSON as ``{"a": [0, 1], "b": [2]}``."""

json_flag = flag("--json", "as_json", help="print JSON, an object per line")


class Column(NamedTuple):
    """A column: its title, and its least width. Unless it ``grows``, longer cells move the rest of their line."""

    title: str
    width: int = 0
    grows: bool = False
    key: str = ""
    """The name in JSON, by default that of the title: CURRENT-OFFSET is currentOffset."""


@dataclasses.dataclass(frozen=True, slots=True)
class Table:
    """Rows of a result, with a cell for each column."""

    columns: Sequence[Column]
    rows: Sequence[Sequence[Cell]]

    def show(self, *, as_json: bool, blank_line: bool = True) -> None:
        """Print the rows as JSON, or the titles and the rows, after a blank line."""
        if as_json:
            for record in self.records():
                say_json(record)
            return
        if blank_line:
            say("")
        for line in self.lines():
            say(line)

    def records(self) -> Iterable[dict[str, Any]]:
        """The rows as JSON has them."""
        keys = [column.key or _key(column.title) for column in self.columns]
        for row in self.rows:
            yield {key: _value(cell) for key, cell in zip(keys, row, strict=True) if key}

    def lines(self) -> list[str]:
        """Titles and rows, with cells that fill their columns, trailing blanks included: Apache Kafka prints them."""
        table = [[column.title for column in self.columns], *([_text(cell) for cell in row] for row in self.rows)]
        widths = [
            max(column.width, *(len(line[index]) for line in table)) if column.grows else column.width
            for index, column in enumerate(self.columns)
        ]
        return [" ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)) for line in table]


def _key(title: str) -> str:
    words: list[str] = [word.lower() for word in _WORD.findall(title)] or [""]
    return words[0] + "".join(word.capitalize() for word in words[1:])


def _value(cell: Cell) -> Any:
    if cell is None or isinstance(cell, str | int):
        return cell
    return {name: [part.partition for part in parts] for name, parts in by_topic(sorted(cell)).items()}


def _text(cell: Cell) -> str:
    if cell is None:
        return _NONE
    if isinstance(cell, bool):
        return str(cell).lower()
    if isinstance(cell, str | int):
        return str(cell)
    topics = by_topic(sorted(cell)).items()
    return ";".join(f"{name}:{','.join(str(part.partition) for part in parts)}" for name, parts in topics) or _NONE
