"""What a write with the partitioner ``lookup`` reads where it is planned: the tables that all its tasks use."""

import pickle

from spark_kafka_native._client.cluster.shared import shared_cluster
from spark_kafka_native._client.lookup_tables.stores import tables_for
from spark_kafka_native._client.partitioning.lookup import BucketTables
from spark_kafka_native._client.partitioning.partitioner_names import LookupTableError
from spark_kafka_native._protocol.errors import KafkaError
from spark_kafka_native._spark.errors import OptionError
from spark_kafka_native._spark.options.companions import LOOKUP_TABLE
from spark_kafka_native._spark.options.parsed import SinkOptions


class PlanningFailed(pickle.PickleError):
    """A batch could not be planned. A pickling error, because Spark changes the text of other errors."""


def read_tables(options: SinkOptions) -> BucketTables | None:
    """The tables of option ``lookupTable``; None without it. Raises PlanningFailed; then nothing was written.

    If option ``topic`` names the topic, only its table is read, and must exist. Otherwise tasks know the topics.
    """
    if options.lookup_table is None:
        return None
    topics = None if options.topic is None else [options.topic]
    try:
        return tables_for(shared_cluster(options.client), options.lookup_table, topics)
    except (LookupTableError, KafkaError) as error:
        text = str(OptionError(LOOKUP_TABLE, f"the write could not be planned, and nothing was written: {error}"))
        raise PlanningFailed(text) from error
