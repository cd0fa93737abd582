from spark_kafka_native._jobs.batch_reload.errors import Conflict, ReloadError, UsageError


def test_exit_statuses_of_errors() -> None:
    assert [error.status for error in (ReloadError("x"), UsageError("x"), Conflict("x"))] == [1, 2, 3]
