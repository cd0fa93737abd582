"""Every property of Apache Kafka's consumer, producer and admin client, against the table of ours.

A Java program asks the three classes for what they define: names, kinds, defaults, bounds.
"""

import re
from typing import NamedTuple

import pytest

from spark_kafka_native._client.config import DEPARTURES, PROPERTIES, REFUSED, WITHOUT_EFFECT, ClientConfig
from spark_kafka_native._net.errors import ConfigError
from spark_kafka_native._net.secret import Secret
from spark_kafka_native._records.compression import CompressionType
from tests.support.programs.java_programs import java_responses
from tests.support.report import skip_if
from tests.support.servers.apache_kafka import apache_kafka_unavailable, kafka_jars

pytestmark = pytest.mark.interop

OURS_ALONE = {
    "auto.include.jmx.reporter": "a property of Kafka's clients before 4.0",
    "broker.addresses": "Kafka's clients cannot use a layer-4 load balancer",
}
"""Names in our tables that Kafka 4.3 does not have, and why they are there."""

MORE_THAN_OURS = {"client.dns.lookup": "resolve_canonical_bootstrap_servers_only is refused, by its value"}


class Defined(NamedTuple):
    """A property as one of Kafka's clients defines it."""

    kind: str
    default: str
    legal: str


@pytest.fixture(scope="module")
def theirs() -> dict[str, dict[str, Defined]]:
    """Client -> property -> definition."""
    skip_if(apache_kafka_unavailable())
    found: dict[str, dict[str, Defined]] = {}
    for line in java_responses("ClientProperties", jars=kafka_jars()):
        client, name, kind, default, legal = line.split("\t")
        found.setdefault(client, {})[name] = Defined(kind, default, legal)
    assert {client: len(defined) > 60 for client, defined in found.items()} == dict.fromkeys(
        ("producer", "consumer", "admin"), True
    )
    return found


def _merged(theirs: dict[str, dict[str, Defined]]) -> dict[str, Defined]:
    """One definition each; where they differ, the consumer's, which most of our properties are of."""
    return theirs["admin"] | theirs["producer"] | theirs["consumer"]


@pytest.mark.feature("client.table")
def test_every_name_stands_in_one_table(theirs: dict[str, dict[str, Defined]]) -> None:
    ours = {*PROPERTIES, *WITHOUT_EFFECT, *REFUSED}
    names = set(_merged(theirs))
    assert names - ours == set()
    assert ours - names == set(OURS_ALONE)


@pytest.mark.feature("client.table")
def test_defaults_are_those_of_kafka_or_documented_otherwise(theirs: dict[str, dict[str, Defined]]) -> None:
    for name, defined in _merged(theirs).items():
        if name in PROPERTIES and name != "bootstrap.servers":
            same = _same(PROPERTIES[name].default, defined.default)
            assert same == (name not in DEPARTURES), f"{name}: {PROPERTIES[name].default!r} and {defined.default!r}"


@pytest.mark.feature("client.table")
def test_bounds_are_kafkas(theirs: dict[str, dict[str, Defined]]) -> None:
    checked = 0
    for name, defined in _merged(theirs).items():
        if name not in PROPERTIES or "or" in defined.legal:
            continue
        for bound in re.findall(r"\[(-?\d+(?:\.\d+)?),", defined.legal):
            number = float(bound) if "." in bound else int(bound)
            assert PROPERTIES[name].type.parse(bound) == number, name
            with pytest.raises(ValueError, match="out of bounds"):
                PROPERTIES[name].type.parse(str(number - 1))
            checked += 1
        for bound in re.findall(r",\.\.\.,(\d+(?:\.\d+)?)\]", defined.legal):
            with pytest.raises(ValueError, match="out of bounds"):
                PROPERTIES[name].type.parse(str((float(bound) if "." in bound else int(bound)) + 1))
            checked += 1
    assert checked > 30


@pytest.mark.feature("client.table")
def test_choices_are_kafkas(theirs: dict[str, dict[str, Defined]]) -> None:
    checked = 0
    for name, defined in _merged(theirs).items():
        listed = re.fullmatch(r"(?:\(case insensitive\) )?\[([A-Za-z0-9_, -]+)\]", defined.legal)
        if (
            name not in PROPERTIES
            or listed is None
            or name in MORE_THAN_OURS
            or not re.search("[a-z]{2}", listed[1], re.IGNORECASE)
        ):
            continue
        for value in listed[1].split(", "):
            PROPERTIES[name].type.parse(value)
        checked += 1
    assert checked >= 4


@pytest.mark.feature("client.table")
@pytest.mark.feature("security.secrets")
def test_what_kafka_keeps_secret_we_do(theirs: dict[str, dict[str, Defined]]) -> None:
    secret = {name for name, defined in _merged(theirs).items() if defined.kind == "PASSWORD" and name in PROPERTIES}
    assert {name for name in PROPERTIES if isinstance(_parsed(name), Secret)} == secret


def test_refusals_say_why() -> None:
    for name, reason in REFUSED.items():
        with pytest.raises(ConfigError, match="is not supported: ") as caught:
            ClientConfig.parse({"bootstrap.servers": "a:1", name: "x"})
        assert reason in caught.value.message


def _parsed(name: str) -> object:
    try:
        return PROPERTIES[name].type.parse("x")
    except ValueError:
        return None


def _same(ours: object, default: str) -> bool:
    text_of_default = {"all": "-1", "read_uncommitted": "0", "none": "0", "[]": "", "null": ""}.get(default, default)
    match ours:
        case None:
            text = ""
        case tuple():
            text, text_of_default = ", ".join(map(str, ours)), text_of_default.strip("[]")
        case CompressionType():
            text = str(int(ours))
        case _:
            text = str(ours)
    return text.lower() == text_of_default.lower()
