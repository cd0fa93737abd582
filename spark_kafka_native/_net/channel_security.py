"""Encryption and authentication of connections."""

import contextlib
import dataclasses
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Final

from spark_kafka_native._net.address import HostPort
from spark_kafka_native._net.errors import AuthenticationFailed, BrokerUnreachable, PropertyReason
from spark_kafka_native._net.sasl.mechanism import Mechanism, SaslError

if TYPE_CHECKING:
    from spark_kafka_native._net.tls import Tls  # imports ssl, which plain connections do without

MechanismFactory = Callable[[HostPort], Mechanism]
"""A mechanism for one authentication with one broker. Raises SaslError: there is no token, ticket or such."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class ChannelSecurity:
    """How connections are protected; both are None for PLAINTEXT."""

    tls: "Tls | None" = None
    sasl: MechanismFactory | None = None
    option_prefix: str = ""
    """Prefix of the property names in the user's options, for errors."""

    def name_of(self, option: str) -> str:
        """A property's name in the user's options."""
        return f"{self.option_prefix}{option}"

    @contextlib.contextmanager
    def naming_options(self) -> Iterator[None]:
        """Rename the property of an AuthenticationFailed that the block raises to its name in the user's options."""
        try:
            yield
        except AuthenticationFailed as error:
            reason = error.reason
            if error.option == "security.protocol":
                reason = f"is {self.protocol}, but {reason}"
            option = self.name_of(error.option)
            raise AuthenticationFailed(error.address, option, reason, error.code, local=error.local) from error

    def mechanism_for(self, address: HostPort) -> Mechanism | None:
        """A mechanism for one authentication; None: there is none.

        Raises AuthenticationFailed, or BrokerUnreachable where a later try may find what is missing.
        """
        if self.sasl is None:
            return None
        try:
            return self.sasl(address)
        except SaslError as error:
            if error.retriable:
                reason = PropertyReason(f"{self.name_of(error.option)}: {error}")
                raise BrokerUnreachable({address: reason}) from error
            raise AuthenticationFailed(address, error.option, str(error), local=error.local) from error

    @property
    def protocol(self) -> str:
        """The value of ``security.protocol``."""
        if self.sasl is None:
            return "PLAINTEXT" if self.tls is None else "SSL"
        return "SASL_PLAINTEXT" if self.tls is None else "SASL_SSL"

    def __str__(self) -> str:
        return f"{self.name_of('security.protocol')} is {self.protocol}"


PLAINTEXT: Final = ChannelSecurity()
"""Neither encryption nor authentication."""
