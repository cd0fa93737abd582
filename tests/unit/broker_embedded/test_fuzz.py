"""Anything at all, as frames, records and files of a log: a response or an error, never a surprise.

Hypothesis makes what is nearly right; what coverage-guided fuzzing found to be of interest is replayed from
tests/golden/fuzz. `tests.support.records.fuzz_targets` says what a surprise is.
"""

import logging
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from broker_embedded._handlers.support.registry import Api, apis_of
from spark_kafka_native._protocol.codec import encode
from spark_kafka_native._records.batch import CompressionType
from tests.support.broker.driver import to_bytes
from tests.support.records.fuzz_corpus import read_corpus
from tests.support.records.fuzz_targets import FILES, TARGETS, FrameTarget, indexes_target, records_target
from tests.support.records.log_batches import batch
from tests.support.records.message_sets import message_set
from tests.support.records.message_strategies import messages

BOUNDED = settings(suppress_health_check=list(HealthCheck))
PIECES = st.sampled_from(
    [b"", b"\0", b"\xff", b"\x7f\xff\xff\xff", b"\xff\xff\xff\xff", b"\xff\xff\xff\xff\x0f", b"\x01"]
)


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    """Repairs are logged, each one here."""
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


@pytest.fixture(scope="module")
def frames() -> Iterator[FrameTarget]:
    target = FrameTarget()
    yield target
    target.close()


@st.composite
def spoiled(draw: st.DrawFn, whole: bytes) -> bytes:
    """Bytes with some of them changed, cut out, cut off or put in; or left as they are."""
    raw = bytearray(whole)
    for _ in range(draw(st.integers(0, 3))):
        start = draw(st.integers(0, len(raw)))
        end = min(len(raw), start + draw(st.integers(0, 6)))
        raw[start:end] = draw(st.binary(max_size=6) | PIECES)
    return bytes(raw[: draw(st.integers(0, len(raw)))] if draw(st.booleans()) and raw else raw)


@st.composite
def requests(draw: st.DrawFn) -> bytes:
    """A frame of some API in some version, right or spoiled, as `FrameTarget` wants it."""
    api: Api = draw(st.sampled_from(list(apis_of("4.3").values())))
    version = draw(st.integers(api.served.first, api.served.last))
    request: Any = draw(messages(api.request, version))
    body = to_bytes(encode(request, version))
    return bytes([api.request.api_key, version - api.served.first]) + draw(spoiled(body) | st.just(body))


def test_frames_are_answered_or_refused(frames: FrameTarget) -> None:
    @settings(BOUNDED, max_examples=150)
    @given(requests())
    def check(data: bytes) -> None:
        frames(data)

    check()


def test_bytes_that_are_no_frame_at_all(frames: FrameTarget) -> None:
    @settings(BOUNDED, max_examples=100)
    @given(st.binary(max_size=60))
    def check(data: bytes) -> None:
        frames(b"\xff" + data)

    check()


SOUND = [bytes(batch(b"a", b"bb" * 30, compression=codec)) for codec in CompressionType] + [
    bytes(message_set(b"a", b"b" * 30, magic=magic, compression=codec))
    for magic in (0, 1)
    for codec in (CompressionType.NONE, CompressionType.GZIP, CompressionType.LZ4)
]


def test_records_are_taken_or_refused() -> None:
    @settings(BOUNDED, max_examples=120)
    @given(st.integers(0, 7), st.sampled_from(SOUND).flatmap(spoiled))
    def check(how: int, records: bytes) -> None:
        records_target(bytes([how]) + records)

    check()


def test_logs_open_whatever_is_in_their_files() -> None:
    kept = read_corpus("indexes")
    assert kept

    @settings(BOUNDED, max_examples=80)
    @given(st.integers(0, 2 * len(FILES) - 1), st.sampled_from(kept).flatmap(spoiled) | st.binary(max_size=100))
    def check(which: int, data: bytes) -> None:
        indexes_target(bytes([which]) + data[1:])

    check()


@pytest.mark.parametrize("name", sorted(TARGETS))
def test_inputs_of_earlier_fuzz_runs(name: str) -> None:
    target = TARGETS[name]()
    inputs = read_corpus(name)
    assert inputs
    for data in inputs:
        target(data)
    if isinstance(target, FrameTarget):
        target.close()
