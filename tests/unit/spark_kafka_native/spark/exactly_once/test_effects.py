"""Effects are values, which can be compared and pickled."""

import pickle

from spark_kafka_native.protocol.topic import TopicPartition
from spark_kafka_native.records.batch import ProducerIdAndEpoch
from spark_kafka_native.spark.exactly_once.effects import End, EndTransactions, InitProducer, WrittenRange


def test_effects_are_values() -> None:
    ends = EndTransactions((End("p.1.2.3.4.0", ProducerIdAndEpoch(7, 1)),), commit=True)
    assert pickle.loads(pickle.dumps(ends)) == ends
    assert hash(ends) == hash(EndTransactions((End("p.1.2.3.4.0", ProducerIdAndEpoch(7, 1)),), commit=True))
    assert InitProducer("p.driver", 1000) != InitProducer("p.driver", 1000, claimed=ProducerIdAndEpoch(7, 0))
    assert WrittenRange(TopicPartition("t", 1), 0, 5) == WrittenRange(TopicPartition("t", 1), 0, 5)


def test_text_of_a_producer_id_and_epoch() -> None:
    assert str(ProducerIdAndEpoch(4_294_967_296, 3)) == "4294967296 with epoch 3"
