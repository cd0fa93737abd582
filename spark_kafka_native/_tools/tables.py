"""Tables that tools print: as Apache Kafka's tools do, or as JSON, an object per row."""

import dataclasses
from collections.abc import Iterable, Sequence
from typing import Any, Final, NamedTuple

from spark_kafka_native._command_line.output import say, say_json
from spark_kafka_native._command_line.parameters import flag
from spark_kafka_native._protocol.topic import TopicPartition, by_topic

_NONE: Final = "-"
Cell = str | int | bool | None | Sequence[TopicPartition]
"""A value of a row. Text has partitions as ``a:0,1;b:2``, JSON as ``{"a": [0, 1], "b": [2]}``."""

json_flag = flag("--json", "as_json", help="print JSON, an object per line")


class Column(NamedTuple):
    """A column: title of the text, key of the JSON, and the least width of the text.

    Unless it ``grows``, longer cells move the rest of their line. JSON has no column without a key, text none without a
    title.
    """

    title: str | None
    key: str | None
    width: int = 0
    grows: bool = False


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
        for row in self.rows:
            yield {column.key: _value(cell) for column, cell in zip(self.columns, row, strict=True) if column.key}

    def lines(self) -> list[str]:
        """Titles and rows, with cells that fill their columns, trailing blanks included: Apache Kafka prints them."""
        shown = [(index, column) for index, column in enumerate(self.columns) if column.title is not None]
        titles = [column.title or "" for _, column in shown]
        table = [titles, *([_text(row[index]) for index, _ in shown] for row in self.rows)]
        widths = [
            max(column.width, *(len(line[index]) for line in table)) if column.grows else column.width
            for index, (_, column) in enumerate(shown)
        ]
        return [" ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)) for line in table]


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
