import json
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_kafka_native._protocol.topic import TopicPartition
from spark_kafka_native._spark.offsets import (
    BeforeLatest,
    Earliest,
    Latest,
    SpecificOffsets,
    format_offsets,
    offsets_to_json,
    parse_assignment,
    parse_offset_limit,
    parse_offsets,
    parse_position,
    parse_timestamps,
    parse_word,
)

A0, A1, B0 = TopicPartition("topicA", 0), TopicPartition("topicA", 1), TopicPartition("topicB", 0)


@pytest.mark.parametrize(
    ("text", "limit"), [("earliest", Earliest()), ("earLiEst", Earliest()), (" laTest ", Latest())]
)
def test_offset_limits_are_case_insensitive(text: str, limit: object) -> None:
    assert parse_offset_limit(text) == limit


@pytest.mark.feature("source.startingOffsets", "offsets.json")
def test_specific_offsets_with_earliest_and_latest() -> None:
    limit = parse_offset_limit('{"topicA":{"0":23,"1":-1},"topicB":{"0":-2}}')
    assert limit == SpecificOffsets(offsets={A0: 23, A1: -1, B0: -2})


@pytest.mark.feature("more.topicOffsets")
def test_whole_topics_by_name() -> None:
    limit = parse_offset_limit('{"topicA":"Earliest","topicC":"latest","topicB":{"0":23}}')
    assert limit == SpecificOffsets(offsets={B0: 23}, topics={"topicA": -2, "topicC": -1})


def test_offsets_before_latest() -> None:
    assert parse_offset_limit("latest-100") == parse_offset_limit(" Latest - 100 ") == BeforeLatest(100)
    assert parse_offset_limit("latest-0") == Latest()
    assert parse_offset_limit('{"topicA":{"0":"latest-5","1":"Earliest"},"topicB":"latest-7"}') == SpecificOffsets(
        offsets={A0: BeforeLatest(5), A1: -2}, topics={"topicB": BeforeLatest(7)}
    )
    assert [parse_position(word) for word in ("earliest", "latest", "latest-9")] == [-2, -1, BeforeLatest(9)]


def test_more_specific_position_takes_precedence() -> None:
    limit = SpecificOffsets(offsets={A0: 5}, topics={"topicA": -2}, default=-1)
    assert [limit.position(tp) for tp in (A0, A1, B0)] == [5, -2, -1]
    assert SpecificOffsets(offsets={A0: 5}).position(A1) is None


@pytest.mark.parametrize("word", ["", "latest+5", "latest-", "latest--5", "first", "latest-1.5"])
def test_invalid_words_for_offsets(word: str) -> None:
    with pytest.raises(ValueError, match="neither earliest nor latest nor of the form latest-100"):
        parse_word(word)


def test_an_offset_before_the_end_has_bounds() -> None:
    with pytest.raises(ValueError, match="out of bounds"):
        parse_word("latest-9223372036854775808")


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("latests", "; did you mean latest?"),
        ("lates-10", "; did you mean latest-10?"),
        ("begin", "'begin' is neither one of these words nor JSON"),
        ('{"t":{"0":"latest-x"}}', "'latest-x' of t-0 is not an offset"),
        ('{"t":{"x":"latest"}}', "'x' of topic 't' is not a partition"),
        ('{"t":5}', "needs an object of partitions, or a word"),
        ("{}", "at least one topic"),
        ("[1]", "not a JSON object"),
        ("null", "not a JSON object"),
        ('{"t":{"0":1', "not valid JSON"),
        ('{"t":{"0":-3}}', "-3 of t-0 is not a valid offset"),
        ('{"t":{"0":1.5}}', "1.5 of t-0"),
        ('{"t":{"0":true}}', "True of t-0"),
        ('{"t":{"0":"5"}}', "'5' of t-0"),
        ('{"t":{"0":9223372036854775808}}', "9223372036854775808 of t-0"),
        ('{"t":{"x":1}}', "'x' of topic 't' is not a partition"),
        ('{"t":{"-1":1}}', "'-1' of topic 't'"),
        ('{"t":{"01":1}}', "'01' of topic 't'"),
        ('{"t":{"2147483648":1}}', "'2147483648' of topic 't'"),
        ('{"t":[0]}', "needs an object of partitions"),
        ('{"t":"middle"}', "'middle' of topic 't'"),
        ('{"t":{"0":1,"0":2}}', "'0' appears twice"),
        ('{"t":{"0":1},"t":{"0":2}}', "'t' appears twice"),
        ("[" * 100_000, "nested too deeply"),
    ],
)
def test_bad_offset_limits_say_what_is_wrong(text: str, complaint: str) -> None:
    with pytest.raises(ValueError, match=r"expected e\.g\.") as caught:
        parse_offset_limit(text)
    assert complaint in str(caught.value)


def test_assign_json_is_a_list_of_partitions() -> None:
    assert parse_assignment('{"topicB":[6,4],"topicA":[1,0,1]}') == (
        A0,
        A1,
        TopicPartition("topicB", 4),
        TopicPartition("topicB", 6),
    )


@pytest.mark.parametrize("text", ["", "topicA", '{"t":{"0":1}}', '{"t":[-1]}', '{"t":["0"]}', '{"t":[true]}', "[]"])
def test_invalid_assign_json_is_an_error(text: str) -> None:
    with pytest.raises(ValueError, match=r'expected e\.g\. \{"topicA":\[0,1\]'):
        parse_assignment(text)


def test_timestamps() -> None:
    assert parse_timestamps('{"topicA":{"0":1700000000000}}') == {A0: 1_700_000_000_000}
    with pytest.raises(ValueError, match="-1 of topicA-0 is not a valid timestamp"):
        parse_timestamps('{"topicA":{"0":-1}}')


@pytest.mark.feature("offsets.json")
def test_offset_json_is_that_of_the_jvm_connector() -> None:
    offsets = {TopicPartition("t", 10): 5, TopicPartition("t", 9): 4, TopicPartition("a", 0): 23}
    assert offsets_to_json(offsets) == '{"a":{"0":23},"t":{"9":4,"10":5}}'


@pytest.mark.feature("offsets.json")
def test_a_checkpoint_of_the_jvm_connector_is_read() -> None:
    line = '{"topic1":{"0":456,"1":789},"topic2":{"0":0}}'
    offsets = parse_offsets(json.loads(line))
    assert offsets[TopicPartition("topic1", 1)] == 789
    assert offsets_to_json(offsets) == line


def test_a_checkpoint_that_is_not_ours_is_refused() -> None:
    with pytest.raises(ValueError, match="needs an object of partitions"):
        parse_offsets({"offset": 17})  # type: ignore[dict-item]  # the mistake tested


_offsets = st.dictionaries(
    st.builds(TopicPartition, st.sampled_from(["a", "a-b", "a.b", "Z"]), st.integers(0, 1200)),
    st.integers(0, 2**63 - 1),
    max_size=20,
)


@given(_offsets, st.randoms(use_true_random=False))
def test_offset_dicts_are_deterministic(offsets: dict[TopicPartition, int], rng: random.Random) -> None:
    """Spark compares offsets as text: another order of the same offsets would be a new batch, for ever."""
    shuffled = list(offsets.items())
    rng.shuffle(shuffled)
    assert json.dumps(format_offsets(dict(shuffled))) == json.dumps(format_offsets(offsets))
    assert parse_offsets(json.loads(json.dumps(format_offsets(offsets)))) == offsets
    for numbers in format_offsets(offsets).values():
        assert [int(partition) for partition in numbers] == sorted(int(partition) for partition in numbers)
