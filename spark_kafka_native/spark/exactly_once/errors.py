"""Why exactly-once stops. The text names the prefix and what to do; the kind is stable, the sentences are not."""

from enum import StrEnum
from typing import Final

from spark_kafka_native.protocol.errors import ErrorCode, KafkaError, PicklableError

_SERVERS: Final = "--bootstrap-server HOST:PORT"


def command(action: str, prefix: str) -> str:
    """What users type to repair a prefix; ``ExactlyOnceError.at`` puts the cluster's servers in."""
    return f"python -m spark_kafka_native.tools exactly-once {action} {prefix} {_SERVERS}"


class Trouble(StrEnum):
    """What stopped a batch."""

    FENCED = "FENCED"
    """Another run has taken the prefix over. Nothing of this one will be decided."""
    NOT_ALIVE = "NOT_ALIVE"
    """A task's transaction is over, or nearly so, before the decision: the batch has to run again."""
    UNKNOWN = "OUTCOME_UNKNOWN"
    """Whether the batch is decided, or all of it committed, could not be found out."""
    LOST = "LOST"
    """The batch is decided and the broker has aborted a part of it."""
    REFUSED = "REFUSED"
    """The batch does not follow the last one that was decided with this prefix."""
    CORRUPT = "CORRUPT"
    """The topic of decisions has what this version does not understand."""
    MIXED = "MIXED"
    """The tasks' messages do not belong together."""


class ExactlyOnceError(PicklableError, RuntimeError):
    """Exactly-once cannot go on. ``str()`` has the kind in brackets."""

    def __init__(self, trouble: Trouble, message: str) -> None:
        self.trouble = trouble
        self.message = message
        super().__init__(f"[PYKAFKA_EXACTLY_ONCE.{trouble.value}] {message}")

    def at(self, servers: str) -> "ExactlyOnceError":
        """The same error, its commands complete; ``servers`` is ``host:port[,host:port...]``."""
        return ExactlyOnceError(self.trouble, self.message.replace(_SERVERS, f"--bootstrap-server {servers}"))


_FENCED: Final = frozenset(
    {ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.INVALID_PRODUCER_ID_MAPPING}
)
_REFUSED: Final = _FENCED | {ErrorCode.INVALID_TXN_STATE, ErrorCode.TRANSACTIONAL_ID_NOT_FOUND}


def is_fenced(error: KafkaError) -> bool:
    """Whether a coordinator says that the producer is not the id's any more. It never will be again."""
    return error.code in _FENCED


def is_refused(error: KafkaError) -> bool:
    """Whether a coordinator has answered that a transaction cannot be ended so: it is over, or never began."""
    return error.code in _REFUSED
