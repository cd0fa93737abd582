import sys
from importlib.machinery import ModuleSpec
from types import ModuleType

import pytest

from spark_kafka_native._spark.source.offset_texts import OffsetTexts

OURS, JVM = '{"t": {"0": 10}}', '{"t":{"0":10}}'

pytestmark = pytest.mark.feature("more.resumeJvm", "more.jvmCheckpoint")


@pytest.fixture
def runner(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    module = ModuleType("__main__")
    module.__spec__ = ModuleSpec("pyspark.sql.streaming.python_streaming_source_runner", None)
    module.json = __import__("json")  # type: ignore[attr-defined]  # made up for the test
    monkeypatch.setitem(sys.modules, "__main__", module)
    return module


def test_texts_of_the_last_two_offsets_are_recorded(runner: ModuleType) -> None:
    texts = OffsetTexts.recorded()
    start, end = runner.json.loads(OURS), runner.json.loads(JVM)
    assert start == end
    assert not texts.is_of_another_connector(start)
    assert texts.is_of_another_connector(end)
    assert not texts.is_of_another_connector({"t": {"0": 10}}), "the runner has not parsed that"
    runner.json.loads(OURS)
    runner.json.loads(OURS)
    assert not texts.is_of_another_connector(end), "only the last two are kept"


@pytest.mark.parametrize("text", ['{"t": {"1": 4, "0": 10}}', "{}", '{"t\\u00e9": {"0": 1}}'])
def test_json_of_python_is_of_this_source(runner: ModuleType, text: str) -> None:
    assert not OffsetTexts.recorded().is_of_another_connector(runner.json.loads(text))


def test_runner_uses_json_as_before(runner: ModuleType) -> None:
    OffsetTexts.recorded()
    assert runner.json.dumps({"t": {"0": 10}}) == OURS
    assert runner.json.JSONDecodeError is __import__("json").JSONDecodeError
    with pytest.raises(
        ValueError, match=r"the offsets in the checkpoint are not of this source: 'nonsense' .*Expecting value"
    ):
        runner.json.loads("nonsense")


def test_other_processes_record_no_texts() -> None:
    before = sys.modules["__main__"].__dict__.get("json")
    texts = OffsetTexts.recorded()
    assert sys.modules["__main__"].__dict__.get("json") is before
    assert not texts.is_of_another_connector({"t": {"0": 10}})


def test_spark_runner_parses_offsets_with_its_global_json() -> None:
    """Spark's module has a global ``json``, and the end that the reader gets is what that has parsed."""
    source = __import__("pyspark.sql.streaming.python_streaming_source_runner", fromlist=["main"])
    assert source.json is __import__("json")
    assert {"json", "loads", "partitions"} <= set(source.partitions_func.__code__.co_names)
