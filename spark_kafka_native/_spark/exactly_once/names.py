"""The names that belong to a prefix: transactional ids, and the topic of decisions.

    <prefix>.driver                                                     the driver's transactional id
    <prefix>.decisions                                                  the topic of decisions
    <prefix>.<producer id>.<epoch>.<batch id>.<task attempt id>.<try>   one task's transaction

Exactly five numbers, so that the ids of the prefixes ``a`` and ``a.1`` differ.
"""

import re
from dataclasses import dataclass
from typing import Final

from spark_kafka_native._protocol.producer_id import ProducerIdAndEpoch
from spark_kafka_native._protocol.topic import topic_name_problem

_NUMBER: Final = r"(0|[1-9][0-9]{0,18})"
_NUMBERS_OF_A_TASK: Final = 5
_NUMBERS: Final = re.compile(r"\.".join([_NUMBER] * _NUMBERS_OF_A_TASK))
_DRIVER: Final = ".driver"
_DECISIONS: Final = ".decisions"


@dataclass(frozen=True, slots=True, kw_only=True)
class DataId:
    """The numbers in a task's transactional id, which is used for one transaction only."""

    fence: ProducerIdAndEpoch
    """The driver's producer of the plan. No two plans have the same."""
    batch_id: int
    task_attempt_id: int
    attempt: int
    """Number of earlier ids of the task: an id whose first response was lost is not used again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Names:
    """Names of one ``transactional.id.prefix``. Raises ValueError: the prefix is invalid."""

    prefix: str

    def __post_init__(self) -> None:
        problem = topic_name_problem(self.decisions_topic) if self.prefix else "it is empty"
        if problem is not None:
            raise ValueError(f"prefix {self.prefix!r} is invalid: {problem}")

    @property
    def driver_id(self) -> str:
        """The transactional id under which decisions are written."""
        return self.prefix + _DRIVER

    @property
    def decisions_topic(self) -> str:
        """The topic of decisions: one partition, compacted."""
        return self.prefix + _DECISIONS

    def data_id(self, data_id: DataId) -> str:
        """The transactional id of one task's transaction."""
        fence = data_id.fence
        numbers = (fence.producer_id, fence.epoch, data_id.batch_id, data_id.task_attempt_id, data_id.attempt)
        return ".".join((self.prefix, *map(str, numbers)))

    def parse(self, transactional_id: str) -> DataId | None:
        """The numbers in an id; None: it is no id of a task with this prefix."""
        if not transactional_id.startswith(f"{self.prefix}."):
            return None
        found = _NUMBERS.fullmatch(transactional_id, len(self.prefix) + 1)
        if found is None:
            return None
        producer_id, epoch, batch_id, task_attempt_id, attempt = map(int, found.groups())
        fence = ProducerIdAndEpoch(producer_id=producer_id, epoch=epoch)
        return DataId(fence=fence, batch_id=batch_id, task_attempt_id=task_attempt_id, attempt=attempt)


def names_of_topic(topic: str) -> Names | None:
    """The names to which a topic of decisions belongs; None for any other topic."""
    return _names(topic.removesuffix(_DECISIONS)) if topic.endswith(_DECISIONS) else None


def names_of_task(transactional_id: str) -> Names | None:
    """The names to which a task's transactional id belongs; None for any other id."""
    names = _names(transactional_id.rsplit(".", _NUMBERS_OF_A_TASK)[0])
    return names if names is not None and names.parse(transactional_id) is not None else None


def _names(prefix: str) -> Names | None:
    try:
        return Names(prefix=prefix)
    except ValueError:  # an invalid prefix
        return None
