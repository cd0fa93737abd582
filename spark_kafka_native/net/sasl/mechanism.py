"""What every SASL mechanism of a client can do."""

from typing import Protocol

from spark_kafka_native.net.secret import Secret


class SaslError(Exception):
    """A mechanism that cannot begin or continue: no token can be had, or the broker's answer is wrong.

    ``option`` is the Kafka property to look at, ``retriable`` whether a later try may succeed. The text has no secret.
    """

    def __init__(self, message: str, option: str = "sasl.jaas.config", *, retriable: bool = False) -> None:
        self.option = option
        self.retriable = retriable
        super().__init__(message)


class Mechanism(Protocol):
    """One authentication: the client's messages, each made of the broker's answer to the one before."""

    @property
    def name(self) -> str:
        """What brokers call it."""

    @property
    def complete(self) -> bool:
        """Whether nothing is missing any more: the broker has been heard, and has proved itself if it must."""

    @property
    def refusal(self) -> str:
        """What the broker had against us, where the mechanism has it say so; empty for nothing."""

    @property
    def secrets(self) -> tuple[Secret, ...]:
        """What must not be repeated, even if the broker does."""

    def first(self) -> bytes:
        """The first message. Raises SaslError."""

    def reply(self, challenge: bytes) -> bytes | None:
        """The message that follows the broker's answer; None if there is none to send.

        Raises SaslError: the broker refuses us, or is not the one that it says it is.
        """
