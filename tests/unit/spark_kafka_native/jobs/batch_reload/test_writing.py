import pickle
from collections.abc import Iterator

import pyarrow as pa
import pytest

from spark_kafka_native._jobs.batch_reload import writing
from spark_kafka_native._jobs.batch_reload.errors import ReloadError
from spark_kafka_native._jobs.batch_reload.formats import file_format
from spark_kafka_native._jobs.batch_reload.storage.location import StorageLocation
from spark_kafka_native._jobs.batch_reload.writing import WriteJob, write_piece
from spark_kafka_native._protocol.topic import TopicPartition
from spark_kafka_native._spark.errors import DataLossError
from spark_kafka_native._spark.options.parsing import Query, parse_source_options
from spark_kafka_native._spark.planning.ranges import range_of
from spark_kafka_native._spark.source.layout import layout_of
from spark_kafka_native._spark.source.schema import source_schema
from tests.support.spark.reload_driver import ReloadDriver

PIECE = range_of(TopicPartition("_t", 3), 5, 25)
JSON = file_format("json", None)


def test_two_attempts_make_two_files(driver: ReloadDriver) -> None:
    one, two = (write_piece(driver.storage, JSON, "l", PIECE, driver.read(PIECE)) for _ in range(2))
    assert one.path != two.path
    assert (one.rows, one.bytes, one.crc32c) == (two.rows, two.bytes, two.crc32c)
    assert one.rows == 20
    assert set(driver.storage.list("_loads")) == {one.path, two.path}
    assert one.path.startswith("_loads/l/_t/00003-00000000000000000005-"), "Spark hides files, not directories, of _"


def test_range_without_records_makes_no_file(driver: ReloadDriver) -> None:
    driver.invisible = {("_t", 3, offset) for offset in range(5, 25)}
    written = write_piece(driver.storage, JSON, "l", PIECE, driver.read(PIECE))
    assert (written.path, written.rows, written.until_offset) == ("", 0, 25)
    assert driver.storage.list("") == {}


def test_failed_attempt_deletes_its_file(driver: ReloadDriver) -> None:
    def breaks_off() -> Iterator[pa.RecordBatch]:
        yield next(driver.read(PIECE))
        raise TimeoutError("the broker is gone")

    with pytest.raises(TimeoutError):
        write_piece(driver.storage, JSON, "l", PIECE, breaks_off())
    assert driver.storage.list("") == {}


def job_on(driver: ReloadDriver) -> WriteJob:
    options = {"kafka.bootstrap.servers": "unknown-host:1", "subscribe": "t"}
    return WriteJob(
        location=StorageLocation(url=driver.storage.url),
        load_id="l",
        source=parse_source_options(options, Query.BATCH),
        layout=layout_of(source_schema(include_headers=True)),
        format=JSON,
    )


@pytest.mark.feature("reload.tasks")
def test_write_job_can_be_pickled(driver: ReloadDriver) -> None:
    job = job_on(driver)
    assert pickle.loads(pickle.dumps(job)) == job


def test_records_deleted_during_the_load(driver: ReloadDriver, monkeypatch: pytest.MonkeyPatch) -> None:
    def ages_out(*_: object) -> Iterator[pa.RecordBatch]:
        yield next(driver.read(PIECE))
        raise DataLossError("KAFKA_DATA_LOSS.COULD_NOT_READ_OFFSET_RANGE", "gone")

    monkeypatch.setattr(writing, "read_ranges", ages_out)
    with pytest.raises(ReloadError, match=r"records of _t-3 offsets \[5, 25\) were deleted while the load ran"):
        job_on(driver).run(PIECE)
    assert driver.storage.list("") == {}
