"""PLAIN (RFC 4616): user name and password as they are, so only over TLS."""

from spark_kafka_native._net.sasl.mechanism import SaslError
from spark_kafka_native._net.secret import Secret


class Plain:
    """Name and password in one message. The authorization id stays empty, as in Kafka's own client."""

    name = "PLAIN"
    refusal = ""

    def __init__(self, username: str, password: Secret) -> None:
        self._username = username
        self._password = password
        self._heard = False
        self.secrets = (password,)

    @property
    def complete(self) -> bool:
        """Whether the broker has answered."""
        return self._heard

    def first(self) -> bytes:
        """The only message. Raises SaslError: a NUL in the name or password."""
        if "\0" in self._username or "\0" in self._password.reveal():
            raise SaslError("user name and password must not contain the character NUL")
        return f"\0{self._username}\0{self._password.reveal()}".encode()

    def reply(self, challenge: bytes) -> bytes | None:  # noqa: ARG002 -- success has no contents
        """None: there is no second message."""
        self._heard = True
        return None
