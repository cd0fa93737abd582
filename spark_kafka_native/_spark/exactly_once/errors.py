"""Errors of exactly-once. The text names the prefix and what to do; the kind is stable, the text is not."""

from enum import StrEnum
from typing import Final

from spark_kafka_native._protocol.errors import ErrorCode, KafkaError, PicklableError

_SERVERS: Final = "--bootstrap-server HOST:PORT"


def command(action: str, prefix: str) -> str:
    """The command line that repairs a prefix; ``ExactlyOnceError.at`` inserts the cluster's servers."""
    return f"pykafka exactly-once {action} {prefix} {_SERVERS}"


def before_another_run(prefix: str) -> str:
    """What to do before a batch write runs again, whose decision may have been made: a query finds out by itself."""
    return f"A batch write that runs again writes its rows again; before that, see {command('status', prefix)}"


class ErrorKind(StrEnum):
    """The reason for which a batch stops."""

    NOT_PLANNED = "NOT_PLANNED"
    """A request failed before anything was written."""
    FENCED = "FENCED"
    """Another run uses the prefix now. This run makes no decision."""
    NOT_ALIVE = "NOT_ALIVE"
    """A task's transaction ended before the decision, or is about to: the batch has to run again."""
    UNKNOWN = "OUTCOME_UNKNOWN"
    """It is unknown whether the batch is decided, or whether all of it is committed."""
    LOST = "LOST"
    """The batch is decided, and the broker has aborted some of its transactions."""
    REFUSED = "REFUSED"
    """The batch does not follow the last decided batch of this prefix."""
    CORRUPT = "CORRUPT"
    """The topic of decisions has invalid records, or records of a later release."""
    MIXED = "MIXED"
    """The tasks' messages belong to different batches."""


class ExactlyOnceError(PicklableError, RuntimeError):
    """The exactly-once sink stops. ``str()`` has the kind in brackets."""

    def __init__(self, kind: ErrorKind, message: str) -> None:
        self.kind = kind
        self.message = message
        super().__init__(f"[PYKAFKA_EXACTLY_ONCE.{kind.value}] {message}")

    def at(self, servers: str) -> "ExactlyOnceError":
        """The same error with complete command lines; ``servers`` is ``host:port[,host:port...]``."""
        return ExactlyOnceError(self.kind, self.message.replace(_SERVERS, f"--bootstrap-server {servers}"))


_FENCED: Final = frozenset(
    {ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.INVALID_PRODUCER_ID_MAPPING}
)
_REFUSED: Final = _FENCED | {ErrorCode.INVALID_TXN_STATE, ErrorCode.TRANSACTIONAL_ID_NOT_FOUND}


def is_fenced(error: KafkaError) -> bool:
    """Whether the coordinator has fenced the producer."""
    return error.code in _FENCED


def is_refused(error: KafkaError) -> bool:
    """Whether the coordinator has refused to end a transaction: it has ended, or never began."""
    return error.code in _REFUSED
