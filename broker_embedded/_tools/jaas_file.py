"""Users from the JAAS file that ``KAFKA_OPTS=-Djava.security.auth.login.config=FILE`` names.

The section ``LISTENER.KafkaServer``, with the listener's name in small letters, is for one listener. ``KafkaServer`` is
for listeners without a section of their own. A setting ``listener.name.LISTENER.MECHANISM.sasl.jaas.config`` is used
instead of the file.
"""

import urllib.parse
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from broker_embedded._config.listener_settings import PREFIX
from broker_embedded._config.settings import SettingError
from spark_kafka_native._command_line.output import ToolFailed
from spark_kafka_native._net.sasl.jaas import JaasError, ModuleText, parse_jaas_file
from spark_kafka_native._net.secret import Secret

_OPTIONS: Final = "KAFKA_OPTS"
_PROPERTY: Final = "-Djava.security.auth.login.config="
_SECTION: Final = "KafkaServer"
_PLAIN: Final = "PlainLoginModule"
_SCRAM: Final = "ScramLoginModule"
_NOT_SERVED: Final = {
    "Krb5LoginModule": "the SASL mechanism GSSAPI is not supported",
    "OAuthBearerLoginModule": "the SASL mechanism OAUTHBEARER is not supported",
}


def jaas_settings(jvm_options: str, listeners: Iterable[str]) -> dict[str, str]:
    """The settings of ``listeners`` in the JAAS file; none if ``jvm_options`` names no file.

    Users of SCRAM are not in the file. Raises SettingError naming the file and the section; ToolFailed: there is no
    such file, or it is not readable.
    """
    path = _path(jvm_options)
    if path is None:
        return {}
    problem = f"{_PROPERTY}{path}"
    try:
        sections = parse_jaas_file(Secret(path.read_text(encoding="utf-8")))
    except OSError as error:
        raise ToolFailed(f"{_OPTIONS}: {problem}: {error}") from None
    except (UnicodeDecodeError, JaasError) as error:
        raise SettingError(_OPTIONS, f"{problem}: {error}") from None
    found = {}
    for listener in listeners:
        own = f"{listener.lower()}.{_SECTION}"
        section = own if own in sections else _SECTION
        users = _plain(f"{problem}: section {section}", sections.get(section, ()))
        if users is not None:
            found[f"{PREFIX}{listener.lower()}.plain.sasl.jaas.config"] = users.reveal()
    return found


def _plain(where: str, modules: Iterable[ModuleText]) -> Secret | None:
    """The text of the PlainLoginModule. Raises SettingError for modules that this broker does not have."""
    users = None
    for module in modules:
        if module.name == _PLAIN and users is None:
            users = module.text
        elif module.name != _SCRAM:
            reason = _NOT_SERVED.get(module.name, f"only one {_PLAIN} and {_SCRAM}s are supported")
            raise SettingError(_OPTIONS, f"{where}: {module.name}: {reason}; remove the login module")
    return users


def _path(jvm_options: str) -> Path | None:
    """The file of the last such option. Java reads ``file:`` URLs, too, and a second ``=`` before either."""
    given = [option.removeprefix(_PROPERTY) for option in jvm_options.split() if option.startswith(_PROPERTY)]
    if not given:
        return None
    text = given[-1].removeprefix("=")
    return Path(urllib.parse.unquote(urllib.parse.urlsplit(text).path) if text.startswith("file:") else text)
