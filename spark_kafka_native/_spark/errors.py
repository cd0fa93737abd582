"""Errors for Spark users: option errors, plan errors and data loss.

Spark passes on only the text of a Python error, so the text has what must be recognised later: the option's name, a
stable code such as ``KAFKA_DATA_LOSS.PARTITIONS_DELETED`` in brackets.
"""

import re
from enum import StrEnum
from typing import Final

from spark_kafka_native._protocol.errors import PicklableError

_SECRET: Final = re.compile(r"password|secret|jaas|token|credential|private|keystore\.key", re.IGNORECASE)


class OptionError(PicklableError, ValueError):
    """An invalid option of the data source; ``option`` is its name, ``message`` what is wrong with it.

    >>> write_updates({"kafka.bootstrap.servers": servers}, topics="counts")
    Traceback (most recent call last):
    spark_kafka_native...OptionError: option 'topics': ...
    """

    def __init__(self, option: str, message: str) -> None:
        self.option = option
        self.message = message
        super().__init__(f"option '{option}': {message}")


class PlanError(PicklableError, ValueError):
    """Offsets, partitions or columns that do not fit together; ``code`` is stable, the text is not."""

    def __init__(self, code: str, message: str) -> None:
        self.code = code
        self.message = message
        super().__init__(f"[{code}] {message}")


class TaskError(RuntimeError):
    """A read or write task that failed; the text names the range, the option to change, and which rows are safe."""


class DataLossKind(StrEnum):
    """Why a query cannot read its records; the values are those of Spark's JVM connector, except TOPIC_RECREATED."""

    PARTITIONS_DELETED = "PARTITIONS_DELETED"
    INITIAL_OFFSET_NOT_FOUND = "INITIAL_OFFSET_NOT_FOUND_FOR_PARTITIONS"
    ADDED_PARTITION_STARTS_LATE = "ADDED_PARTITION_DOES_NOT_START_FROM_OFFSET_ZERO"
    OFFSET_CHANGED = "PARTITION_OFFSET_CHANGED"
    COULD_NOT_READ = "COULD_NOT_READ_OFFSET_RANGE"
    TOPIC_RECREATED = "TOPIC_RECREATED"


class AfterRestart(StrEnum):
    """What a query does about a loss if it is started again with its checkpoint; the values are for the error."""

    FINDS_IT = (
        "a restart meets the same gap. Set option 'failOnDataLoss' to false to continue with the records that are left"
    )
    CONTINUES = "a restarted query does not find the loss again, and continues where this one stopped"
    READS_OLD_OFFSETS = (
        "a restarted stream does not find the loss: it continues at the offset in the old topic, and skips records of "
        "the new topic before that offset. Start it with a new checkpointLocation. With option 'commitOffsetsToGroup' "
        "later restarts find such a loss"
    )


class DataLossError(PicklableError, RuntimeError):
    """Records that a query would read were deleted, and ``failOnDataLoss`` is true or does not apply."""

    def __init__(self, code: str, message: str) -> None:
        self.code = code
        self.message = message
        super().__init__(f"[{code}] {message}")

    @classmethod
    def of(cls, kind: DataLossKind, reason: str, restart: AfterRestart = AfterRestart.FINDS_IT) -> "DataLossError":
        """The error for ``failOnDataLoss=true``: the reason, and how to continue without the records."""
        stopped = "The query stopped before it read past the gap, so nothing else was lost"
        return cls(f"KAFKA_DATA_LOSS.{kind.value}", f"{reason}. {stopped}; {restart.value}")


def redacted(message: str, option: str, value: object) -> str:
    """A message about an option, without the option's value if its name means a secret."""
    secret = str(value)
    return message.replace(secret, "(hidden)") if secret and _SECRET.search(option) else message
