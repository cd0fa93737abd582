import sys
from types import ModuleType
from typing import Any

import pytest

from spark_kafka_native._records import _kernel
from spark_kafka_native._records.arrow import kernel
from spark_kafka_native._records.arrow.decode import decode
from spark_kafka_native._records.batch import CorruptBatch
from tests.support.records.reference import Batch, Record, write_batch


@pytest.fixture
def built() -> Any:
    return pytest.importorskip(
        "spark_kafka_native._records.arrow.compiled", reason="the kernel has not been built", exc_type=ImportError
    )


def test_off_is_plain_python() -> None:
    assert kernel.choose("off") is None


def test_auto_is_the_compiled_kernel_where_it_has_been_built(built: Any) -> None:
    for wish in ("", "auto", "required"):
        assert isinstance(kernel.choose(wish), ModuleType)


def test_another_value_of_the_variable_is_refused() -> None:
    with pytest.raises(ValueError, match="SPARK_KAFKA_NATIVE_KERNEL is 'on'; it can be auto, off or required"):
        kernel.choose("on")


def test_another_choice_for_a_while(built: Any) -> None:
    with kernel.using("off"):
        assert not kernel.is_compiled()
        with kernel.using("required"):
            assert kernel.is_compiled()
        assert not kernel.is_compiled()


def test_without_the_kernel_there_is_one_warning(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setitem(sys.modules, "spark_kafka_native._records.arrow.compiled", None)
    monkeypatch.delattr("spark_kafka_native._records.arrow.compiled", raising=False)
    monkeypatch.setattr(_kernel, "_reasons", [])
    monkeypatch.setattr(sys, "path", [])  # it may have another package, which the warning would name
    assert kernel.choose("off") is None
    assert caplog.messages == []
    assert kernel.choose("auto") is kernel.choose("") is None
    (warning,) = caplog.messages
    assert "cannot be imported: import of spark_kafka_native._records.arrow.compiled halted" in warning
    assert "`pip install --verbose --force-reinstall --no-deps .` in a clone of spark-kafka-native" in warning
    assert "SPARK_KAFKA_NATIVE_KERNEL=off" in warning
    with pytest.raises(ImportError, match=r"^SPARK_KAFKA_NATIVE_KERNEL is required, but .* halted; .*`pip install"):
        kernel.choose("required")


def test_the_reference_raises_the_error_of_what_the_kernel_refuses(built: Any) -> None:
    buffer = write_batch(Batch(records=(Record(),)), b"\x0c\x00\x00\x00\x05\x01\x00")
    with pytest.raises(CorruptBatch, match=r"impossible offset delta 0 or key length -3, .*record 0"):
        decode(buffer, from_offset=0, until_offset=1)
