"""Responses with errors, read by kafka-python's classes, in every API and version that they know."""

import itertools
from collections.abc import Iterator
from typing import Any

import pytest

from broker_embedded._testing.refusals import CODES as NAMES
from broker_embedded._testing.refusals import present, refusal
from spark_kafka_native._protocol.errors import ErrorCode
from spark_kafka_native._protocol.framing import response_frame
from spark_kafka_native._protocol.schema import Request
from tests.support.broker.driver import to_bytes
from tests.support.records.sample_messages import APIS, sample, structs_in, versions_of

pytest.importorskip("kafka.protocol.api_message", reason="kafka-python 3 is not installed")

from kafka.protocol import admin, consumer, metadata, producer

CODES = (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.COORDINATOR_NOT_AVAILABLE)
THEIRS = {name: getattr(module, name) for module in (admin, consumer, metadata, producer) for name in module.__all__}
TAKEN_FOR_VERSION_0 = {("ApiVersions", 3), ("ApiVersions", 4)}
"""Whatever the error, kafka-python reads these as if the broker did not know the version (KIP-511)."""
KNOWN = [api for api in APIS if api.response.__name__ in THEIRS]


def codes_in(value: Any) -> list[int]:
    if isinstance(value, dict):
        return [code for name, inner in value.items() for code in _codes_of(name, inner)]
    return [code for inner in value for code in codes_in(inner)] if isinstance(value, list | tuple) else []


def _codes_of(name: str, value: Any) -> list[int]:
    return ([value] if value else []) if name in NAMES else codes_in(value)


@pytest.mark.parametrize("api", KNOWN, ids=lambda api: api.api_name)
def test_kafka_python_reads_error_responses(api: type[Request[Any]]) -> None:
    their_class = THEIRS[api.response.__name__]
    for version, code in itertools.product(versions_of(api), CODES):
        if (api.api_name, version) in TAKEN_FOR_VERSION_0:
            continue
        ours: Any = refusal(sample(api, version), version, code)
        frame = to_bytes(response_frame(ours, version, 7))
        theirs = their_class.decode(frame[4:], version=version, header=True)
        structs: Iterator[Any] = structs_in(ours, version)
        numbers = [
            getattr(each, spec.name) for each in structs for spec in present(type(each), version) if spec.name in NAMES
        ]
        mine = [number for number in numbers if number]
        assert codes_in(theirs.to_dict()) == [code] * len(mine)
        assert mine or (api.api_name == "DescribeLogDirs" and version < 3)


def test_kafka_python_knows_most_apis() -> None:
    assert len(KNOWN) > 25
