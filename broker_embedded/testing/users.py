"""Users of a broker for tests: in settings, so that they can log in by every mechanism that there is."""

import base64
import re
from collections.abc import Mapping
from typing import Final

from broker_embedded.config.listener_settings import PREFIX, SASL_PLAINTEXT
from broker_embedded.config.settings import ConfigError
from spark_kafka_native.net.sasl.scram import FEWEST_ITERATIONS, HASHES, salted_password
from spark_kafka_native.net.secret import Secret

_NAME: Final = re.compile(r"[\w.+-]+")
_SALT: Final = b"of a test"


def settings_with_users(settings: Mapping[str, object], users: Mapping[str, str]) -> dict[str, object]:
    """What to set besides ``settings``: a listener SASL_PLAINTEXT, and its users with their passwords.

    Raises ConfigError: a name that is not of letters, digits, ``_``, ``.``, ``+`` and ``-``; a password is empty.
    """
    for name, password in users.items():
        if not _NAME.fullmatch(name) or not password:
            raise ConfigError("users", f"{name!r} is no name of a user with a password")
    options = " ".join(f'user_{name}="{_escaped(password)}"' for name, password in users.items())
    first = [_first_user(mechanism, name, users[name]) for mechanism in HASHES for name in users]
    return {
        "listeners": f"{settings['listeners']},{SASL_PLAINTEXT}://127.0.0.1:0",
        f"{PREFIX}{SASL_PLAINTEXT.lower()}.plain.sasl.jaas.config": f"PlainLoginModule required {options};",
        "add.scram": " ".join([str(settings.get("add.scram", "")), *first]).strip(),
    }


def _first_user(mechanism: str, name: str, password: str) -> str:
    """The password is salted, because it may have any character."""
    salted = salted_password(mechanism, Secret(password), _SALT, FEWEST_ITERATIONS)
    salt, salted_text = (base64.b64encode(value).decode() for value in (_SALT, salted))
    return f"{mechanism}=[name={name},salt={salt},saltedpassword={salted_text}]"


def _escaped(password: str) -> str:
    return password.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
