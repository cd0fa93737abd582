"""Rates of records that were read, with the columns of Kafka's tools."""

import re
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from spark_kafka_native._command_line.commands import Options
from spark_kafka_native._command_line.output import InvalidOption, say, say_json
from spark_kafka_native._command_line.parameters import POSITIVE, Decorator, flag, option, together
from spark_kafka_native._tools.tables import json_flag

_MIB: Final = 1 << 20
_LETTERS: Final = {
    "yyyy": "%Y", "yy": "%y", "MM": "%m", "dd": "%d", "HH": "%H", "mm": "%M", "ss": "%S", "Z": "%z",
}  # fmt: skip
"""Of SimpleDateFormat, by strftime. ``SSS`` are milliseconds."""
_PART: Final = re.compile(r"'([^']*)'|([A-Za-z])\2*|[^A-Za-z']+")

rate_options: Final[Decorator] = together(
    option(
        "--reporting-interval",
        type=POSITIVE,
        metavar="MS",
        default=5000,
        show_default=True,
        help="time between lines with --show-detailed-stats",
    ),
    flag("--show-detailed-stats", help="print a line for each interval, instead of one for the whole run"),
    flag("--hide-header", help="print no names of columns"),
    option(
        "--date-format",
        metavar="PATTERN",
        default="yyyy-MM-dd HH:mm:ss:SSS",
        show_default=True,
        help="of times, as in Java's SimpleDateFormat",
    ),
    json_flag,
)


@dataclass(frozen=True, slots=True)
class Read:
    """What was read until a time."""

    at: float
    """Seconds since 1970."""
    records: int = 0
    bytes: int = 0


Cells = dict[str, Any]
"""By the names of columns: text, integers, or numbers with four digits after the point."""


class RateTable:
    """The lines of one run. Columns that only one tool has are added by ``more``."""

    def __init__(
        self, options: Options, more: Callable[[Read, Read], Cells] = lambda *_: {}, *, first: Cells | None = None
    ) -> None:
        """The run begins now. ``first``: cells after the time. Raises InvalidOption: --date-format."""
        self._format = date_format(options.date_format)
        self._options = options
        self._more = more
        self._first = first or {}
        self._has_header = options.hide_header or options.as_json
        self._interval_s: float = options.reporting_interval / 1000
        self._began = self._before = Read(time.time())

    def is_due(self, at: float) -> bool:
        """Whether the interval has ended."""
        return at - self._before.at >= self._interval_s

    def note(self, now: Read) -> None:
        """Print a line with --show-detailed-stats, if the interval has ended."""
        if self.is_due(now.at):
            self._show_interval(now)

    def end(self, now: Read) -> None:
        """Print the line of the whole run, or of the last interval."""
        if not self._options.show_detailed_stats:
            times = {"start.time": self._format(self._began.at), "end.time": self._format(now.at)}
            self._print({**times, **self._first, **self._rates(self._began, now)})
        elif now.records > self._before.records:
            self._show_interval(now)

    def _show_interval(self, now: Read) -> None:
        if self._options.show_detailed_stats:
            self._print({"time": self._format(now.at), **self._first, **self._rates(self._before, now)})
        self._before = now

    def _rates(self, before: Read, now: Read) -> Cells:
        seconds = max(now.at - before.at, 1e-3)
        return {
            "data.consumed.in.MB": now.bytes / _MIB,
            "MB.sec": (now.bytes - before.bytes) / _MIB / seconds,
            "data.consumed.in.nMsg": now.records,
            "nMsg.sec": (now.records - before.records) / seconds,
            **self._more(before, now),
        }

    def _print(self, cells: Cells) -> None:
        if self._options.as_json:
            say_json({name: round(cell, 4) if isinstance(cell, float) else cell for name, cell in cells.items()})
            return
        if not self._has_header:
            self._has_header = True
            say(", ".join(cells))
        say(", ".join(f"{cell:.4f}" if isinstance(cell, float) else str(cell) for cell in cells.values()))


def date_format(pattern: str) -> Callable[[float], str]:
    """From seconds since 1970 to local time, by a pattern of Java's SimpleDateFormat. Raises InvalidOption."""
    parts: list[str] = []
    for part in _PART.finditer(pattern):
        text = part[0]
        if part[1] is not None:
            parts.append(part[1].replace("%", "%%") or "'")
        elif part[2] is None:
            parts.append(text.replace("%", "%%"))
        elif text in _LETTERS:
            parts.append(_LETTERS[text])
        elif text == "SSS":
            parts.append("{ms:03d}")
        else:
            known = ", ".join([*_LETTERS, "SSS"])
            raise InvalidOption(f"--date-format: {text!r} is not one of {known}; letters stand in single quotes")
    wanted = "".join(parts)

    def text_of(seconds: float) -> str:
        at = datetime.fromtimestamp(seconds).astimezone()
        return at.strftime(wanted).replace("{ms:03d}", f"{at.microsecond // 1000:03d}")

    return text_of
