import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spark_kafka_native._protocol.producer_id import ProducerIdAndEpoch
from spark_kafka_native._spark.exactly_once.names import DataId, Names, names_of_task, names_of_topic

NUMBERS = st.integers(min_value=0, max_value=2**53)
IDS = st.builds(
    DataId,
    fence=st.builds(ProducerIdAndEpoch, NUMBERS, st.integers(min_value=0, max_value=32767)),
    batch_id=NUMBERS,
    task_attempt_id=NUMBERS,
    attempt=st.integers(min_value=0, max_value=9),
)
PREFIXES = st.from_regex(r"[A-Za-z0-9._-]{1,12}", fullmatch=True)


def test_names_of_a_prefix() -> None:
    names = Names(prefix="orders")
    data_id = DataId(fence=ProducerIdAndEpoch(4_294_967_296, 3), batch_id=17, task_attempt_id=42, attempt=0)
    assert names.driver_id == "orders.driver"
    assert names.decisions_topic == "orders.decisions"
    assert names.data_id(data_id) == "orders.4294967296.3.17.42.0"
    assert names.parse("orders.4294967296.3.17.42.0") == data_id


@settings(max_examples=50)
@given(PREFIXES, IDS)
def test_transactional_id_is_parsed(prefix: str, data_id: DataId) -> None:
    names = Names(prefix=prefix)
    assert names.parse(names.data_id(data_id)) == data_id
    assert names_of_task(names.data_id(data_id)) == names


@settings(max_examples=50)
@given(PREFIXES, PREFIXES, IDS)
def test_transactional_id_belongs_to_one_prefix(one: str, other: str, data_id: DataId) -> None:
    assert (Names(prefix=other).parse(Names(prefix=one).data_id(data_id)) is None) == (one != other)


@pytest.mark.parametrize(
    "foreign",
    [
        "a.driver",
        "a.decisions",
        "a",
        "a.1.2.3.4",
        "a.1.2.3.4.5.6",
        "a.1.1.2.3.4.5",
        "b.1.2.3.4.5",
        "aa.1.2.3.4.5",
        "x.a.1.2.3.4.5",
        "a.1.2.3.4.05",
        "a.1.2.3.4.-5",
        "a.1.2.3.4.5\n",
        "a.1.2.3.4.\u0665",
        "a..2.3.4.5",
        "a.1.2.3.4.99999999999999999999",
    ],
)
def test_transactional_ids_that_no_task_has(foreign: str) -> None:
    assert Names(prefix="a").parse(foreign) is None


@pytest.mark.parametrize(
    ("prefix", "said"), [("", "is empty"), ("a b", "characters other"), ("ö", "characters"), ("x" * 240, "is 250")]
)
def test_prefix_must_be_valid_in_a_topic_name(prefix: str, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        Names(prefix=prefix)


@pytest.mark.parametrize(
    "foreign", ["a.1.2.3.4", "1.2.3.4.5", "a/b.1.2.3.4.5", "x:y", "", ".1.2.3.4.5", "a.driver", "a.1.2.3.4.05"]
)
def test_transactional_ids_without_a_prefix(foreign: str) -> None:
    assert names_of_task(foreign) is None


@pytest.mark.parametrize(
    ("topic", "prefix"),
    [
        ("a.decisions", "a"),
        ("a.b.decisions", "a.b"),
        (".decisions", None),
        ("decisions", None),
        ("a.decisions.x", None),
    ],
)
def test_topic_of_decisions_has_its_prefix(topic: str, prefix: str | None) -> None:
    found = names_of_topic(topic)
    assert (None if found is None else found.prefix) == prefix
