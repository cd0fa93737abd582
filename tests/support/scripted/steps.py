"""What a ``ScriptedCluster`` does with a request: answer as a broker would, or fail in one way."""

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final

from spark_kafka_native._protocol.errors import ErrorCode
from spark_kafka_native._protocol.schema import Response


@dataclass(frozen=True)
class Pass:
    """Answer as a broker would."""


@dataclass(frozen=True)
class Drop:
    """Close the connection instead of answering; ``applied``: after the request was carried out."""

    applied: bool = False


@dataclass(frozen=True)
class HalfFrame:
    """Carry the request out, send so many bytes of the response, and close the connection, unless it ``stays_open``."""

    length: int = 10
    stays_open: bool = False


@dataclass(frozen=True)
class Raw:
    """Send these bytes instead of the response. The request is not carried out."""

    data: bytes


@dataclass(frozen=True)
class WrongCorrelation:
    """Carry the request out and answer under another correlation id."""


@dataclass(frozen=True)
class Slow:
    """Answer after so many milliseconds; whatever comes over the connection waits."""

    ms: int

    def wait(self) -> None:
        time.sleep(self.ms / 1000)


@dataclass(frozen=True)
class Held:
    """Answer once the test sets ``until``; whatever comes over the connection waits."""

    until: threading.Event

    def wait(self) -> None:
        self.until.wait()


@dataclass(frozen=True)
class Together:
    """Answer once as many such requests have come as the barrier has parties."""

    barrier: threading.Barrier

    def wait(self) -> None:
        self.barrier.wait()


@dataclass(frozen=True)
class Silent:
    """Never answer, and leave the connection open; ``applied``: carry the request out."""

    applied: bool = False


@dataclass(frozen=True)
class Refuse:
    """Answer with this error code for all that the request names. It is not carried out."""

    code: ErrorCode


@dataclass(frozen=True)
class Throttle:
    """Answer with this throttle time, a Fetch without any partition; the next request is taken up at once all the same.

    So a client that does not sit it out is found out by when its next request comes (``ScriptedCluster.received_at``).
    """

    ms: int


@dataclass(frozen=True)
class Respond:
    """Answer with what the function makes of the request. It is not carried out."""

    make: Callable[[Any], Response] = field(repr=False)


Step = Pass | Drop | HalfFrame | Raw | WrongCorrelation | Slow | Held | Together | Silent | Refuse | Throttle | Respond

BROKEN_CONNECTIONS: Final[tuple[Step, ...]] = (
    Drop(), Drop(applied=True), HalfFrame(), WrongCorrelation(), Raw(b"\xff" * 9)
)  # fmt: skip
"""The ways in which a response can be lost or malformed."""
