"""Which release writes which message format."""

import pytest

from broker_embedded.config.message_format import is_ignored, parse_release, record_magic
from broker_embedded.config.settings import ConfigError


@pytest.mark.parametrize(
    ("release", "magic"),
    [
        ("0.8.0", 0),
        ("0.8.2.X", None),
        ("0.9.0.1", 0),
        ("0.9", 0),
        ("0.10.0-IV0", 1),
        ("0.10.2", 1),
        ("0.10.2-IV0", 1),
        ("0.11.0-IV0", 2),
        ("1.0", 2),
        ("2.8-IV1", 2),
        ("3.0-IV1", 2),
        ("4.3", 2),
        ("0.7", None),
        ("", None),
        ("latest", None),
        ("2", None),
    ],
)
def test_releases_and_their_formats(release: str, magic: int | None) -> None:
    if magic is None:
        with pytest.raises(ConfigError, match=r"a\.key: .* is no release of Kafka from 0\.8 on"):
            parse_release("a.key", release)
    else:
        assert record_magic(release, "") == magic


@pytest.mark.parametrize(
    ("message_format", "protocol", "magic"),
    [
        ("0.9.0", "0.10.2", 0),
        ("2.0", "0.10.2", 1),
        ("3.0-IV1", "0.9.0", 0),
        ("0.10.0", "2.8", 1),
        ("0.10.0", "3.0", 2),
        ("0.9.0", "3.9-IV0", 2),
    ],
)
def test_the_brokers_own_protocol_bounds_it_or_has_it_ignored(message_format: str, protocol: str, magic: int) -> None:
    assert record_magic(message_format, protocol) == magic
    assert is_ignored(protocol) == protocol.startswith("3")


def test_without_a_protocol_nothing_is_ignored() -> None:
    assert not is_ignored("")
