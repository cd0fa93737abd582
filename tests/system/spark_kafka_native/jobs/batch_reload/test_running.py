import sys
import threading
from dataclasses import dataclass

import pytest
from pyspark.errors import PySparkException
from pyspark.serializers import CloudPickleSerializer
from pyspark.sql import SparkSession

from spark_kafka_native._jobs.batch_reload.errors import ReloadError
from spark_kafka_native._jobs.batch_reload.running import SparkRunner
from tests.support.spark.reload_driver import run_here


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    name: str
    length: int


def measure(word: str) -> Result:
    if not word:
        raise ReloadError("there is an empty word")
    return Result(name=word, length=len(word) << 33)


def test_local_runner() -> None:
    seen: list[int] = []
    assert run_here(measure, ["a", "bc"], Result, seen.append) == [measure("a"), measure("bc")]
    assert seen == [1, 2]
    with pytest.raises(ReloadError, match="a task returned str, not Result"):
        run_here(str, ["a"], Result, seen.append)


@pytest.mark.spark
@pytest.mark.feature("reload.tasks", "reload.progress")
def test_on_spark_one_task_each(spark: SparkSession) -> None:
    runner = SparkRunner(spark, "words")
    seen: list[int] = []
    words = [f"{'x' * length}ü" for length in range(9)]
    responses = runner(measure, words, Result, seen.append)
    assert sorted(responses, key=lambda response: response.length) == [measure(word) for word in words]
    assert seen == sorted(seen)
    assert seen[-1] == 9
    assert runner(measure, [], Result, seen.append) == []
    with pytest.raises(PySparkException, match="there is an empty word"):
        runner(measure, ["a", ""], Result, seen.append)

    def enough(_: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        runner(measure, words, Result, enough)
    assert len(runner(measure, words, Result, seen.append)) == 9, "the session is as it was"


@pytest.mark.spark
def test_an_interrupted_action_starts_no_further_job(spark: SparkSession) -> None:
    """In a session that runs on, an action of several jobs is cancelled between two of them, too."""
    interrupted, ended = threading.Event(), threading.Event()
    failed: list[bool] = []

    def action() -> None:
        assert interrupted.wait(60)
        try:
            spark.range(10).count()
            failed.append(False)
        except Exception:
            failed.append(True)
        ended.set()

    def watch(_: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        SparkRunner(spark, "words").watched(action, watch)
    interrupted.set()
    assert ended.wait(60)
    assert failed == [True]
    assert spark.range(10).count() == 10


@pytest.mark.spark
def test_pandas_is_not_needed(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pandas", None)
    assert SparkRunner(spark, "words")(measure, ["a"], Result, lambda _: None) == [measure("a")]


@pytest.mark.spark
def test_a_task_gets_its_own_item_only(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    """Items are entries of a manifest. With all of them in the function, every task had to unpickle them."""
    really_dump = CloudPickleSerializer.dumps

    def largest(count: int) -> int:
        sizes: list[int] = []

        def dump(serializer: CloudPickleSerializer, given: object) -> bytes:
            data: bytes = really_dump(serializer, given)  # type: ignore[no-untyped-call]
            sizes.append(len(data))
            return data

        monkeypatch.setattr(CloudPickleSerializer, "dumps", dump)
        words = [f"{number:05d}" * 1000 for number in range(count)]
        responses = SparkRunner(spark, "words")(measure, words, Result, lambda _: None)
        assert sorted(responses, key=lambda response: response.name) == [measure(word) for word in words]
        return max(sizes)

    assert largest(30) == pytest.approx(largest(3), abs=1000)
