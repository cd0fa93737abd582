from spark_kafka_native.client.config import PROPERTIES
from spark_kafka_native.client.java_properties import DEPARTURES, REFUSED, WITHOUT_EFFECT


def test_no_property_is_in_two_tables() -> None:
    tables = [set(PROPERTIES), set(WITHOUT_EFFECT), set(REFUSED)]
    assert sum(map(len, tables)) == len(set.union(*tables))
    assert set(DEPARTURES) <= set(PROPERTIES)


def test_every_reason_is_part_of_a_sentence() -> None:
    for reason in (*WITHOUT_EFFECT.values(), *REFUSED.values(), *DEPARTURES.values()):
        assert reason
        assert not reason.endswith(".")
