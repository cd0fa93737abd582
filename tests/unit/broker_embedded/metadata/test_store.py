import asyncio
import dataclasses
import errno
from typing import Any
from uuid import UUID

import pytest

from broker_embedded._metadata.files.credentials import CREDENTIALS
from broker_embedded._metadata.files.metadata_file import MetadataFile, MetadataFileError
from broker_embedded._metadata.files.producer_ids import PRODUCER_IDS
from broker_embedded._metadata.files.quotas import QUOTAS
from broker_embedded._metadata.files.stored_configs import CONFIGS, StoredConfigs
from broker_embedded._metadata.files.topics import TOPICS
from broker_embedded._metadata.image import EMPTY_IMAGE, ClusterImage, PartitionImage, TopicImage
from broker_embedded._metadata.store import MetadataStore, Plan
from broker_embedded._platform.platform import read_file, write_file
from broker_embedded._quotas.entities import USER, ClientQuotaEntity
from broker_embedded._security.credentials import Credentials, ScramCredential, ScramUser
from spark_kafka_native._net.secret import Secret
from spark_kafka_native._protocol.errors import ErrorCode, KafkaError
from tests.support.broker.disk import DATA_DIR, FaultyFileSystem, SimulatedCrash, new_disk
from tests.support.broker.metadata import open_store
from tests.support.refusals import refused


@pytest.fixture
def files() -> FaultyFileSystem:
    return FaultyFileSystem(new_disk())


@pytest.fixture
def store(files: FaultyFileSystem) -> MetadataStore:
    return open_store(files)


def set_cluster(**configs: str) -> Plan[StoredConfigs]:
    """A plan that sets configs of all brokers."""
    return lambda now: now.with_cluster({**now.cluster, **configs})


def refuse(_: StoredConfigs) -> StoredConfigs:
    raise KafkaError(ErrorCode.INVALID_REQUEST, "refused")


def credentials(password: str) -> Credentials:
    return {
        ScramUser("alice", "SCRAM-SHA-256"): ScramCredential.of_password("SCRAM-SHA-256", Secret(password), salt=b"s")
    }


ANN = ClientQuotaEntity.of([(USER, "ann")])
PARTITION = PartitionImage(leader=1, replicas=(1,), isr=(1,))
TOPIC = TopicImage(name="t", topic_id=UUID(int=1), partitions=(PARTITION,), configs={"retention.ms": "5"})
OTHER = TopicImage(name="u", topic_id=UUID(int=2), partitions=(PARTITION,))
CHANGES: dict[MetadataFile[Any], tuple[object, object]] = {
    CONFIGS: (StoredConfigs(cluster={"a": "1"}), StoredConfigs(cluster={"a": "2"})),
    CREDENTIALS: (credentials("old"), credentials("new")),
    PRODUCER_IDS: (1000, 2000),
    QUOTAS: ({ANN: {"producer_byte_rate": 1.0}}, {ANN: {"producer_byte_rate": 2.0}}),
    TOPICS: (EMPTY_IMAGE.with_topics([TOPIC], deleting={}), EMPTY_IMAGE.with_topics([TOPIC, OTHER], deleting={})),
}
"""An old and a new value of each file."""
each_file = pytest.mark.parametrize("file", CHANGES, ids=lambda file: file.name)


def replace(store: MetadataStore, file: MetadataFile[Any], value: object) -> None:
    asyncio.run(store.commit(file, lambda _: value))


@each_file
def test_a_change_is_visible_and_there_after_a_restart(file: MetadataFile[Any]) -> None:
    disk = new_disk()
    store = open_store(disk)
    replace(store, file, CHANGES[file][0])
    disk.crash()
    for each in (store, open_store(disk)):
        assert each._value(file) == CHANGES[file][0]


@each_file
@pytest.mark.parametrize("torn", [False, True])
@pytest.mark.parametrize("power_loss", [False, True])
def test_a_crash_at_any_step_leaves_the_old_or_the_new_value(
    file: MetadataFile[Any], torn: bool, power_loss: bool
) -> None:
    old, new = CHANGES[file]
    found: list[object] = []
    crashed = True
    while crashed:
        disk = new_disk()
        files = FaultyFileSystem(disk)
        store = open_store(files)
        replace(store, file, old)
        files.revive()
        files.crash_at, files.torn = len(found), torn
        try:
            replace(store, file, new)
            crashed = False
        except SimulatedCrash:
            pass
        if power_loss:
            disk.crash()
        found.append(open_store(disk)._value(file))
    assert len(found) > 4
    steps_before = found.index(new)
    assert found == [old] * steps_before + [new] * (len(found) - steps_before)


@each_file
def test_a_damaged_file_is_named_and_not_overwritten(files: FaultyFileSystem, file: MetadataFile[Any]) -> None:
    write_file(files, file.path(DATA_DIR), b"hunter2")
    with pytest.raises(MetadataFileError, match=f"^{file.path(DATA_DIR)}: it is damaged") as caught:
        open_store(files)
    assert "hunter2" not in str(caught.value)
    assert read_file(files, file.path(DATA_DIR)) == b"hunter2"


def test_a_refused_change_writes_nothing(store: MetadataStore, files: FaultyFileSystem) -> None:
    before = store.current
    with pytest.raises(KafkaError, match="refused"):
        asyncio.run(store.commit(CONFIGS, refuse))
    assert store.current is before
    assert not files.exists(f"{DATA_DIR}/{CONFIGS.name}")


def test_a_plan_without_a_change_writes_nothing(store: MetadataStore, files: FaultyFileSystem) -> None:
    asyncio.run(store.commit(CONFIGS, set_cluster(a="1")))
    files.fail("*")
    asyncio.run(store.commit(CONFIGS, set_cluster(a="1")))


@each_file
def test_a_disk_that_fails_leaves_the_old_value_and_names_the_file(
    store: MetadataStore, files: FaultyFileSystem, caplog: pytest.LogCaptureFixture, file: MetadataFile[Any]
) -> None:
    old, new = CHANGES[file]
    replace(store, file, old)
    files.fail(f"sync {file.name}.tmp", errno.ENOSPC)
    error = refused(replace, store, file, new)
    path = file.path(DATA_DIR)
    assert (error.code, error.detail) == (ErrorCode.KAFKA_STORAGE_ERROR, f"{path}: No space left on device")
    assert f"{path} cannot be written" in caplog.text
    files.heal()
    for each in (store, open_store(files)):
        assert each._value(file) == old


def test_watchers_prepare_before_a_change_is_visible_and_apply_it_after(store: MetadataStore) -> None:
    seen: list[tuple[str, object, object, object]] = []

    def watcher(name: str) -> None:
        async def prepare(before: StoredConfigs, after: StoredConfigs) -> None:
            note(f"prepare {name}", before, after)

        async def apply(before: StoredConfigs, after: StoredConfigs) -> None:
            note(f"apply {name}", before, after)

        store.watch(CONFIGS, apply, prepare=prepare)

    def note(what: str, before: StoredConfigs, after: StoredConfigs) -> None:
        seen.append((what, before.cluster, after.cluster, store.current.configs.cluster))

    watcher("first")
    watcher("second")
    asyncio.run(store.commit(CONFIGS, set_cluster(a="1")))
    old: dict[str, str] = {}
    new = {"a": "1"}
    assert seen == [
        ("prepare first", old, new, old),
        ("prepare second", old, new, old),
        ("apply first", old, new, new),
        ("apply second", old, new, new),
    ]


def test_a_watcher_that_cannot_prepare_undoes_the_change(store: MetadataStore, files: FaultyFileSystem) -> None:
    async def prepare(_: StoredConfigs, after: StoredConfigs) -> None:
        if "b" in after.cluster:
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, "no space for logs")

    async def apply(*_: object) -> None:
        return None

    store.watch(CONFIGS, apply, prepare=prepare)
    asyncio.run(store.commit(CONFIGS, set_cluster(a="1")))
    with pytest.raises(KafkaError, match="no space for logs"):
        asyncio.run(store.commit(CONFIGS, set_cluster(b="1")))
    for found in (store, open_store(files)):
        assert found.current.configs.cluster == {"a": "1"}


async def test_changes_of_different_kinds_do_not_wait_for_each_other(store: MetadataStore) -> None:
    applied = asyncio.Event()

    async def wait(*_: object) -> None:
        await applied.wait()

    store.watch(TOPICS, wait)
    slow = asyncio.create_task(store.commit(TOPICS, lambda now: _with_id(now, "c")))
    await asyncio.sleep(0)
    first = store.current.next_producer_id
    await store.commit(PRODUCER_IDS, lambda now: now + 5)
    assert not slow.done()
    applied.set()
    await slow
    assert (store.current.next_producer_id, store.current.image.cluster_id) == (first + 5, "c")


async def test_changes_of_topics_and_configs_wait_for_each_other(store: MetadataStore) -> None:
    order: list[str] = []

    async def wait(*_: object) -> None:
        for _step in range(5):
            await asyncio.sleep(0)
        order.append("topics")

    async def note(*_: object) -> None:
        order.append("configs")

    store.watch(TOPICS, wait)
    store.watch(CONFIGS, note)
    await asyncio.gather(
        store.commit(TOPICS, lambda now: _with_id(now, "c")), store.commit(CONFIGS, set_cluster(a="1"))
    )
    assert order == ["topics", "configs"]


def _with_id(now: ClusterImage, cluster_id: str) -> ClusterImage:
    return dataclasses.replace(now, cluster_id=cluster_id)
