"""The message format of logs, from ``message.format.version`` and ``inter.broker.protocol.version``.

Both name a release of Kafka, as in ``0.10.2`` or ``2.8-IV1``. Releases before 0.10.0 write messages of format v0, those
before 0.11.0 of v1, all later ones record batches, v2. From ``inter.broker.protocol.version`` 3.0 on the other setting
is ignored (KIP-724); a topic's may not be newer than the broker's own protocol.
"""

import re
from functools import lru_cache
from typing import Final

from broker_embedded._config.settings import SettingError

LATEST_MAGIC: Final = 2
_RELEASE: Final = re.compile(r"(\d+)\.(\d+)(?:\.(\d+))?(?:\.\d+)?(?:-IV\d+)?")
_OLDEST: Final = (0, 8)
_V1_SINCE: Final = (0, 10)
_V2_SINCE: Final = (0, 11)
_IGNORED_SINCE: Final = (3, 0)


@lru_cache(maxsize=64)
def parse_release(key: str, text: str) -> tuple[int, int]:
    """The first two numbers of a release. Raises SettingError, naming ``key``: it is none of Kafka's."""
    match = _RELEASE.fullmatch(text.strip())
    release = (int(match[1]), int(match[2])) if match else (0, 0)
    if release < _OLDEST:
        raise SettingError(key, f"{text!r} is not a release of Kafka since 0.8, such as 0.10.2 or 2.8-IV1")
    return release


@lru_cache(maxsize=64)
def record_magic(message_format: str, inter_broker_protocol: str) -> int:
    """The magic of new records. An empty ``inter_broker_protocol`` is no bound. Both are valid."""
    wanted = _magic_of(parse_release("message.format.version", message_format))
    if not inter_broker_protocol:
        return wanted
    protocol = parse_release("inter.broker.protocol.version", inter_broker_protocol)
    return LATEST_MAGIC if protocol >= _IGNORED_SINCE else min(wanted, _magic_of(protocol))


def is_ignored(inter_broker_protocol: str) -> bool:
    """Whether ``message.format.version`` is ignored, because of the inter-broker protocol."""
    return (
        bool(inter_broker_protocol)
        and parse_release("inter.broker.protocol.version", inter_broker_protocol) >= _IGNORED_SINCE
    )


def _magic_of(release: tuple[int, int]) -> int:
    return (release >= _V1_SINCE) + (release >= _V2_SINCE)
