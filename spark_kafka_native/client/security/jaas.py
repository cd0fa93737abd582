"""``sasl.jaas.config`` as Java reads it: one login module, a control flag and options.

org.apache.kafka.common.security.plain.PlainLoginModule required username="alice" password="...";
"""

import dataclasses
from typing import Final

from spark_kafka_native.client.properties import ConfigError
from spark_kafka_native.net.sasl import jaas
from spark_kafka_native.net.secret import Secret

OPTION: Final = "sasl.jaas.config"


@dataclasses.dataclass(frozen=True, slots=True)
class LoginModule(jaas.LoginModule):
    """A client's login module, which may need some of its options."""

    def required(self, name: str) -> Secret:
        """An option that must be there. Raises ConfigError."""
        value = self.options.get(name)
        if value is None:
            raise ConfigError(OPTION, f"{self.name} needs the option {name}")
        return value


def parse_jaas(text: Secret) -> LoginModule:
    """The login module of a ``sasl.jaas.config``. Raises ConfigError, whose text repeats nothing of it."""
    try:
        module = jaas.parse_login_module(text)
    except jaas.JaasError as error:
        raise ConfigError(OPTION, str(error)) from None
    return LoginModule(module.name, module.options)
