"""Kafka for PySpark without the JVM connector: ``spark.read.format("pykafka")``, and functions for such queries.

Everything that is meant for users is in this module, in ``spark_kafka_native.clients``, in
``spark_kafka_native.confluent`` and in ``broker_embedded.testing``. Modules whose names begin with an underscore can
change in every release. See docs/interface.md.
"""

__version__ = "0.1.0"

_MODULES = {  # imported at the first use (PEP 562), because each process of a query needs only some of them
    "JavaMissing": "_java",
    "KafkaUpdates": "_spark.sink.update_mode",
    "Lag": "_spark.progress.report",
    "LagListener": "_spark.progress.listener",
    "LogFilesError": "_log_0_7.files",
    "OptionError": "_spark.errors",
    "PyKafkaDataSource": "_spark.datasource",
    "QueryReport": "_spark.progress.report",
    "QueryState": "_spark.progress.view",
    "ReloadError": "_jobs.batch_reload.errors",
    "count_bytes": "_spark.progress.report",
    "ensure_java": "_java",
    "load_dataframe": "_jobs.batch_reload.reading",
    "read_log_0_7": "_spark.log_0_7",
    "register": "_spark.datasource",
    "watch": "_spark.progress.view",
    "worker_python": "_spark.worker_python",
    "write_updates": "_spark.sink.update_mode",
}

__all__ = ["__version__", *_MODULES]  # noqa: PLE0604  # all are texts


def __getattr__(name: str) -> object:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from spark_kafka_native._extras import import_with_spark  # noqa: PLC0415  # few processes of a query come here

    return getattr(import_with_spark(f"{__name__}.{_MODULES[name]}", f"{__name__}.{name}"), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
