"""What every SASL mechanism of a broker can do."""

from typing import Final, Protocol

OTHER_ID: Final = "Authentication failed: Client requested an authorization id that is different from username"
"""Nobody may act for others."""


class SaslRefused(Exception):
    """The client is not let in; ``str()`` is what it may be told, which never says whether there is such a user."""


class ServerMechanism(Protocol):
    """One authentication: takes the client's messages in turn."""

    @property
    def user(self) -> str | None:
        """Who the client has proved to be; None as long as it has not."""

    def take(self, token: bytes) -> bytes:
        """The answer to a message of the client, which may be empty. Raises SaslRefused."""
