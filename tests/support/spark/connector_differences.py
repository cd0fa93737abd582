"""Where ``pykafka`` does otherwise than Spark's JVM connector, on purpose, each with the reason.

Tests that put the same question to both (tests/interop/jvm_connector/) fail for any other difference, and for one
listed here that is none any more.
"""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, Final


@dataclass(frozen=True)
class Difference:
    """What differs in the answers of a case, and why it is meant."""

    reason: str
    fields: frozenset[str]


def _in(reason: str, *fields: str) -> Difference:
    return Difference(reason, frozenset(fields))


_NO_TASK: Final = "a partition without records in the range needs no task"
_ONE_TASK: Final = "Spark gives a Python source that has nothing to read one task"
_LATER: Final = "a partition that is empty now keeps a task, so that what arrives later is read"
_NO_END: Final = "a stream has no end, and the JVM connector says nothing"
_NAMES: Final = "an unknown name is a mistake"

DIFFERENCES: Final[Mapping[str, Difference]] = {
    "assign: none exist": _in(_ONE_TASK, "partitions"),
    "pattern: no topic": _in(_ONE_TASK, "partitions"),
    "offsets": _in(_NO_TASK, "partitions"),
    "offsets: nothing between": _in(_NO_TASK, "partitions"),
    "minPartitions: more": _in(_LATER, "partitions"),
    "maxRecordsPerPartition: earliest to latest": _in("the JVM connector does not split these", "partitions"),
    "offsets: of whole topics": _in("the JVM connector does not read them", "columns", "rows", "partitions", "error"),
    "sink: no mode": _in("Spark refuses a Python sink without a mode", "error"),
    "sink: update": _in("Spark refuses a Python sink in update mode", "error"),
    "client config: unknown": _in(_NAMES, "error"),
    "option: unknown": _in(_NAMES, "error"),
    "stream: minOffsetsPerTrigger": _in("nothing is left unread", "rows", "batches", "partitions", "end"),
    "stream: a limit below the number of partitions": _in("the limit holds", "batches", "partitions"),
    "stream: endingTimestamp": _in(_NO_END, "rows", "batches", "partitions", "end", "error"),
}
"""By the names of cases in `tests.support.spark.connector_cases`."""


def meant(case: str) -> frozenset[str]:
    """The parts of the answers that are to differ in a case."""
    return DIFFERENCES[case].fields if case in DIFFERENCES else frozenset()


def differing(ours: Any, theirs: Any, *compared: str) -> frozenset[str]:
    """The parts in which two answers differ, of all or of those named; of errors, only whether there is one."""
    found = set()
    for name in compared or [field.name for field in fields(ours)]:
        our_part, their_part = getattr(ours, name), getattr(theirs, name)
        if name == "error":
            our_part, their_part = our_part is None, their_part is None
        if our_part != their_part:
            found.add(name)
            print(f"{name}\n  ours:   {getattr(ours, name)}\n  theirs: {getattr(theirs, name)}")  # pytest shows it
    return frozenset(found)
