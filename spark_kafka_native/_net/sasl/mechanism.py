"""The interface of the client's SASL mechanisms."""

from typing import Protocol

from spark_kafka_native._net.secret import Secret


class SaslError(Exception):
    """A mechanism that cannot begin or continue: no token can be had, or the broker's response is wrong.

    ``option`` is the Kafka property to look at, ``retriable`` whether a later try may succeed,
    ``local`` whether the broker has no part in it, for example because a file is missing. The text has no secret.
    """

    def __init__(
        self, message: str, option: str = "sasl.jaas.config", *, retriable: bool = False, local: bool = False
    ) -> None:
        self.option = option
        self.retriable = retriable
        self.local = local
        super().__init__(message)


class Mechanism(Protocol):
    """One authentication: the client's messages, each made of the broker's response to the one before."""

    @property
    def name(self) -> str:
        """Kafka's name of the mechanism."""

    @property
    def complete(self) -> bool:
        """Whether the broker has accepted the client, and has proved its own identity if the mechanism requires it."""

    @property
    def refusal(self) -> str:
        """The broker's reason for a refusal, if the mechanism transmits one; else empty."""

    @property
    def secrets(self) -> tuple[Secret, ...]:
        """Values that error messages must not contain."""

    def first(self) -> bytes:
        """The first message. Raises SaslError."""

    def reply(self, challenge: bytes) -> bytes | None:
        """The message after the broker's response; None if there is none to send.

        Raises SaslError: the broker refuses the client, or could not prove its identity.
        """
