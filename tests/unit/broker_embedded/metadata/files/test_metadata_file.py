import errno
import json
import logging
import os
import stat
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker_embedded._metadata.files.credentials import CREDENTIALS
from broker_embedded._metadata.files.metadata_file import MetadataFile, MetadataFileError, refuse_unknown
from broker_embedded._metadata.files.producer_ids import PRODUCER_IDS
from broker_embedded._metadata.files.quotas import QUOTAS
from broker_embedded._metadata.files.stored_configs import CONFIGS, StoredConfigs
from broker_embedded._metadata.files.topics import TOPICS
from broker_embedded._metadata.image import EMPTY_IMAGE, PartitionImage, TopicImage
from broker_embedded._platform.platform import RealFileSystem, read_file
from broker_embedded._quotas.entities import CLIENT_ID, IP, USER, ClientQuotaEntity
from broker_embedded._security.credentials import ScramCredential, ScramUser
from tests.support.broker.disk import DATA_DIR, FaultyFileSystem, new_disk


def _parse(document: dict[str, Any]) -> str:
    refuse_unknown(document, {"version", "text"})
    return str(document["text"])


def a_file(*, credentials: bool = False) -> MetadataFile[str]:
    return MetadataFile(
        name="text.json",
        encode=lambda text: f'{{"version": 1, "text": "{text}"}}'.encode(),
        parse=_parse,
        empty=lambda: "none",
        private=True,
        credentials=credentials,
    )


FILE = a_file()
PATH = f"{DATA_DIR}/text.json"


@pytest.fixture
def files() -> FaultyFileSystem:
    return FaultyFileSystem(new_disk())


def test_the_value_without_a_file_is_empty(files: FaultyFileSystem) -> None:
    assert FILE.read(files, DATA_DIR) == "none"
    assert FILE.read(files, f"{DATA_DIR}/missing") == "none"


def test_the_new_file_replaces_the_old_one(files: FaultyFileSystem) -> None:
    for text in ("first", "second, which is longer", ""):
        FILE.write(files, DATA_DIR, text)
        assert FILE.read(files, DATA_DIR) == text


def test_a_disk_that_fails_leaves_the_old_file(files: FaultyFileSystem) -> None:
    FILE.write(files, DATA_DIR, "old")
    files.fail("sync text.json.tmp", errno.ENOSPC)
    with pytest.raises(OSError, match="No space left on device"):
        FILE.write(files, DATA_DIR, "new")
    assert FILE.read(files, DATA_DIR) == "old"


@pytest.mark.parametrize(
    ("raw", "said"),
    [
        (b"", r"it is damaged \(JSONDecodeError: .*\); restore the file from a copy$"),
        (b"[]", r"it is damaged \(TypeError: "),
        (b'{"text": "a"}', r"it is damaged \(KeyError: 'version'\); restore"),
        (b'{"version": 2, "text": "a"}', "version 2; this broker reads version 1"),
        (b'{"version": 1, "text": "a", "more": 1, "and": 2}', "unknown keys and, more"),
    ],
)
def test_an_error_names_the_file(files: FaultyFileSystem, raw: bytes, said: str) -> None:
    files.create(PATH).write_at(0, raw)
    with pytest.raises(MetadataFileError, match=f"^{PATH}: {said}"):
        FILE.read(files, DATA_DIR)


def test_an_error_in_a_file_of_credentials_repeats_none() -> None:
    with pytest.raises(MetadataFileError) as caught:
        a_file(credentials=True).decode(b'{"version": 1, "hunter2')
    assert "hunter2" not in str(caught.value)


def test_private_files() -> None:
    assert (CONFIGS.private, CREDENTIALS.private, CREDENTIALS.credentials) == (True, True, True)


@pytest.mark.parametrize("umask", [0o022, 0o000])
def test_a_private_file_is_readable_by_its_owner_only(tmp_path: Path, umask: int) -> None:
    path = tmp_path / FILE.name
    path.with_name(f"{FILE.name}.tmp").touch(0o644)
    previous = os.umask(umask)
    try:
        for text in ("one", "two"):
            FILE.write(RealFileSystem(), str(tmp_path), text)
            assert stat.S_IMODE(path.stat().st_mode) == 0o600
    finally:
        os.umask(previous)


@pytest.mark.parametrize(("mode", "changed"), [(0o644, True), (0o640, True), (0o600, False)])
def test_a_private_file_that_other_users_may_read_gets_mode_0600(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, mode: int, changed: bool
) -> None:
    path = tmp_path / FILE.name
    FILE.write(RealFileSystem(), str(tmp_path), "secret")
    path.chmod(mode)
    assert FILE.read(RealFileSystem(), str(tmp_path)) == "secret"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert (f"{path}: mode 0600" in caplog.text) is changed


def test_a_file_whose_mode_cannot_be_changed_is_read_with_a_warning(
    files: FaultyFileSystem, caplog: pytest.LogCaptureFixture
) -> None:
    FILE.write(files, DATA_DIR, "secret")
    assert FILE.read(files, DATA_DIR) == "secret"
    assert caplog.text == ""
    files.fail("make_private text.json", errno.EPERM)
    assert FILE.read(files, DATA_DIR) == "secret"
    assert f"{PATH}: mode 0600 cannot be set, so other users of this machine may read the file" in caplog.text


def test_the_temporary_file_of_an_interrupted_write_is_removed(
    files: FaultyFileSystem, caplog: pytest.LogCaptureFixture
) -> None:
    FILE.write(files, DATA_DIR, "text")
    FILE.remove_unfinished(files, DATA_DIR)
    assert caplog.text == ""
    files.create(f"{PATH}.tmp")
    files.fail("remove text.json.tmp", errno.EROFS)
    FILE.remove_unfinished(files, DATA_DIR)
    assert f"{PATH}.tmp: cannot be removed, so other users of this machine may read it" in caplog.text
    files.heal()
    with caplog.at_level(logging.WARNING):
        FILE.remove_unfinished(files, DATA_DIR)
    assert not files.exists(f"{PATH}.tmp")
    assert read_file(files, PATH) == FILE.encode("text")


USERS = st.builds(ScramUser, st.text(min_size=1), st.sampled_from(("SCRAM-SHA-256", "SCRAM-SHA-512")))
ALL = st.builds(
    ScramCredential,
    salt=st.binary(),
    stored_key=st.binary(),
    server_key=st.binary(),
    iterations=st.integers(min_value=4096, max_value=16384),
)
ONE = {
    ScramUser("alice", "SCRAM-SHA-256"): ScramCredential(salt=b"s", stored_key=b"t", server_key=b"u", iterations=4096)
}


@given(st.dictionaries(USERS, ALL, max_size=4))
def test_credentials_survive_encoding(credentials: dict[ScramUser, ScramCredential]) -> None:
    raw = CREDENTIALS.encode(credentials)
    assert CREDENTIALS.decode(raw) == credentials
    assert CREDENTIALS.encode(CREDENTIALS.decode(raw)) == raw


def test_a_credential_is_a_line() -> None:
    assert CREDENTIALS.encode(ONE).decode().splitlines()[2] == (
        ' {"user": "alice", "mechanism": "SCRAM-SHA-256", "iterations": 4096, "salt": "cw==", "stored_key": "dA==", '
        '"server_key": "dQ=="}]}'
    )


@pytest.mark.parametrize("change", [{"salt": "hunter2"}, {"colour": "hunter2"}, {"iterations": "hunter2"}, {"salt": 7}])
def test_errors_do_not_contain_damaged_values(change: dict[str, object]) -> None:
    document = json.loads(CREDENTIALS.encode(ONE))
    document["credentials"][0].update(change)
    with pytest.raises(MetadataFileError) as caught:
        CREDENTIALS.decode(json.dumps(document).encode())
    assert "hunter2" not in str(caught.value)


def test_a_number_beyond_all_numbers_is_damage() -> None:
    raw = CREDENTIALS.encode(ONE).replace(b"4096", b"1e999")
    with pytest.raises(MetadataFileError, match="OverflowError"):
        CREDENTIALS.decode(raw)


NAMES = st.none() | st.text(min_size=1)
ENTITIES = st.builds(
    ClientQuotaEntity.of,
    st.dictionaries(st.sampled_from([USER, CLIENT_ID, IP]), NAMES, min_size=1).map(lambda parts: parts.items()),
)
VALUES = st.dictionaries(st.text(), st.floats(allow_nan=False), min_size=1)


@given(st.dictionaries(ENTITIES, VALUES))
def test_quotas_survive_encoding(quotas: dict[ClientQuotaEntity, dict[str, float]]) -> None:
    assert QUOTAS.decode(QUOTAS.encode(quotas)) == quotas


def test_quotas_are_readable_json() -> None:
    raw = QUOTAS.encode({ClientQuotaEntity.of([(USER, "ann"), (CLIENT_ID, None)]): {"producer_byte_rate": 1024.0}})
    assert raw == (
        b'{"version": 1,\n"quotas": [\n'
        b' {"entity": {"user": "ann", "client-id": null}, "values": {"producer_byte_rate": 1024.0}}]}\n'
    )


IDS = st.integers(-(2**31), 2**31 - 1)
PARTITIONS = st.builds(
    PartitionImage,
    leader=IDS,
    leader_epoch=IDS,
    replicas=st.lists(IDS, max_size=3).map(tuple),
    isr=st.lists(IDS, max_size=3).map(tuple),
)
ANY_TOPIC = st.builds(
    TopicImage,
    name=st.text(),
    topic_id=st.uuids(),
    partitions=st.lists(PARTITIONS, max_size=3).map(tuple),
    configs=st.dictionaries(st.text(), st.text(), max_size=3),
)
UNIQUE_TOPICS = st.lists(ANY_TOPIC, max_size=4, unique_by=(lambda topic: topic.name, lambda topic: topic.topic_id))


@given(UNIQUE_TOPICS, st.dictionaries(st.uuids(), st.text(), max_size=3))
def test_topics_survive_encoding(topics: list[TopicImage], deleting: dict[UUID, str]) -> None:
    read = TOPICS.decode(TOPICS.encode(EMPTY_IMAGE.with_topics(topics, deleting=deleting)))
    assert list(read.topics.values()) == sorted(topics, key=lambda topic: topic.name)
    assert read.deleting == deleting


@pytest.mark.parametrize("twice", ["name", "topic_id"])
def test_topics_that_share_a_name_or_an_id_are_refused(twice: str) -> None:
    topics = [TopicImage(name=f"t{number}", topic_id=UUID(int=number), partitions=()) for number in range(2)]
    raw = TOPICS.encode(EMPTY_IMAGE.with_topics(topics, deleting={}))
    changed = raw.replace(b"t1", b"t0") if twice == "name" else raw.replace(b"000001", b"000000")
    assert changed != raw
    with pytest.raises(MetadataFileError, match="is repeated"):
        TOPICS.decode(changed)


SOME = StoredConfigs(
    cluster={"log.retention.ms": "5"},
    brokers={1: {"max.connections": "7"}, 2: {"max.connections": "8"}},
    groups={"a group": {"consumer.session.timeout.ms": "50000"}},
)
WITH_FEATURES = SOME.with_features({"transaction.version": 1})


@pytest.mark.parametrize("configs", [StoredConfigs(), SOME, WITH_FEATURES])
def test_configs_survive_encoding(configs: StoredConfigs) -> None:
    assert CONFIGS.decode(CONFIGS.encode(configs)) == configs


def test_equal_configs_have_equal_bytes() -> None:
    turned = StoredConfigs(cluster=SOME.cluster, brokers=dict(reversed([*SOME.brokers.items()])), groups=SOME.groups)
    assert CONFIGS.encode(turned) == CONFIGS.encode(SOME)


def test_configs_are_readable_json() -> None:
    assert json.loads(CONFIGS.encode(SOME))["brokers"] == {"1": {"max.connections": "7"}, "2": {"max.connections": "8"}}


def test_resources_without_settings_are_not_stored() -> None:
    changed = SOME.with_broker(2, {}).with_group("a group", {}).with_cluster({})
    assert changed == StoredConfigs(brokers={1: {"max.connections": "7"}})
    assert SOME.with_broker(2, {"max.connections": "9"}).brokers[2] == {"max.connections": "9"}
    assert SOME.with_group("b", {"x": "1"}).groups == {**SOME.groups, "b": {"x": "1"}}


def test_levels_of_features_are_there_once_one_was_set_and_count_how_often() -> None:
    assert "features" not in json.loads(CONFIGS.encode(SOME))
    assert json.loads(CONFIGS.encode(WITH_FEATURES))["features"] == {"changes": 1, "levels": {"transaction.version": 1}}
    assert WITH_FEATURES.with_features({"transaction.version": 1}) == WITH_FEATURES
    assert WITH_FEATURES.with_features({}) == WITH_FEATURES
    again = WITH_FEATURES.with_features({"transaction.version": 2})
    assert (again.features, again.feature_changes) == ({"transaction.version": 2}, 2)


_TOPIC = TopicImage(
    name="a", topic_id=UUID(int=1), partitions=(PartitionImage(leader=1, replicas=(1,), isr=(1,)),), configs={"k": "v"}
)


INFINITY = float("inf")
PARTITION = {"leader": INFINITY, "epoch": 0, "replicas": [1], "isr": [1]}
FILES: dict[str, tuple[MetadataFile[Any], object]] = {
    "producer ids": (PRODUCER_IDS, 5000),
    "credentials": (CREDENTIALS, ONE),
    "quotas": (QUOTAS, {ClientQuotaEntity.of([(USER, "ann")]): {"producer_byte_rate": 1.0}}),
    "topics": (TOPICS, EMPTY_IMAGE.with_topics([_TOPIC], deleting={UUID(int=2): "b"})),
    "configs": (
        CONFIGS,
        StoredConfigs(cluster={"a": "5"}, brokers={1: {"b": "7"}, 2: {"b": "8"}}, groups={"a group": {"c": "5"}}),
    ),
}
each_file = pytest.mark.parametrize(("file", "value"), FILES.values(), ids=FILES)


@each_file
def test_a_truncated_file_is_refused(file: MetadataFile[Any], value: object) -> None:
    raw = file.encode(value).rstrip()
    for length in range(len(raw)):
        with pytest.raises(MetadataFileError):
            file.decode(raw[:length])


@each_file
@pytest.mark.parametrize(
    ("raw", "said"),
    [
        (b"", "JSONDecodeError"),
        (b"{", "JSONDecodeError"),
        (b"\xff", "UnicodeDecodeError"),
        (b"\xff\xfe", "JSONDecodeError"),
        (b"[" * 100_000, "RecursionError"),
        (b"[]", "TypeError"),
        (b"{}", "KeyError: ('version'|this broker did not write it)"),
        (b'{"version": 1}', "KeyError: ('(quotas|topics|cluster|next_producer_id)'|this broker did not write it)"),
        (b'{"version": 2}', "version 2; this broker reads version 1"),
    ],
    ids=["empty", "cut", "not UTF-8", "UTF-16", "deep", "a list", "no version", "version 1", "version 2"],
)
def test_a_file_that_is_no_document_of_version_1_is_refused(
    file: MetadataFile[Any], value: object, raw: bytes, said: str
) -> None:
    with pytest.raises(MetadataFileError, match=said):
        file.decode(raw)


@pytest.mark.parametrize(
    ("name", "change", "said"),
    [
        *((name, {"more": 1}, "unknown keys more") for name in FILES),
        ("credentials", {"credentials": [{"user": "alice"}]}, "KeyError"),
        ("credentials", {"credentials": 7}, "TypeError"),
        *(("producer ids", {"next_producer_id": value}, "ValueError") for value in (-5, INFINITY, "7", 7.0, True)),
        ("quotas", {"quotas": [{"entity": {}}]}, "KeyError"),
        ("quotas", {"quotas": [{"entity": {}, "values": {}, "more": 1}]}, "unknown keys more"),
        ("quotas", {"quotas": [{"entity": 5, "values": {}}]}, "AttributeError"),
        ("quotas", {"quotas": [{"entity": {}, "values": {"a": "x"}}]}, "ValueError"),
        ("quotas", {"quotas": [{"entity": {}, "values": {"a": 10**400}}]}, "OverflowError"),
        ("topics", {"topics": [{"name": "a"}]}, "KeyError"),
        ("topics", {"deleting": [{"name": "a", "id": "x"}]}, "ValueError"),
        (
            "topics",
            {"topics": [{"name": "a", "id": str(UUID(int=1)), "configs": {}, "partitions": [PARTITION]}]},
            "OverflowError",
        ),
        ("configs", {"cluster": []}, "AttributeError"),
        ("configs", {"brokers": {"x": {}}}, "ValueError"),
        ("configs", {"brokers": {"1": 5}}, "AttributeError"),
        ("configs", {"features": {}}, "KeyError: 'levels'"),
        ("configs", {"features": {"changes": 1, "levels": {"a": "x"}}}, "ValueError"),
        ("configs", {"features": {"changes": INFINITY, "levels": {}}}, "OverflowError"),
    ],
)
def test_a_malformed_file_is_refused(name: str, change: dict[str, object], said: str) -> None:
    file, value = FILES[name]
    raw = json.dumps(json.loads(file.encode(value)) | change).replace("Infinity", "1e999").encode()
    with pytest.raises(MetadataFileError, match=said):
        file.decode(raw)
