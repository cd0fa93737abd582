import asyncio
import dataclasses
import errno

import pytest

from broker_embedded.metadata.files.producer_ids import PRODUCER_IDS
from broker_embedded.metadata.files.stored_configs import CONFIGS, StoredConfigs
from broker_embedded.metadata.files.topics import TOPICS
from broker_embedded.metadata.image import ClusterImage
from broker_embedded.metadata.store import MetadataStore, Plan
from spark_kafka_native.protocol.errors import ErrorCode, KafkaError
from tests.support.broker.disk import DATA_DIR, FaultyFileSystem, new_disk
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


def test_a_change_is_visible_and_there_after_a_restart(store: MetadataStore, files: FaultyFileSystem) -> None:
    asyncio.run(store.commit(CONFIGS, set_cluster(a="1")))
    assert store.current.configs.cluster == {"a": "1"}
    assert open_store(files).current.configs == store.current.configs


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


def test_a_disk_that_fails_leaves_the_old_value_and_names_the_file(
    store: MetadataStore, files: FaultyFileSystem, caplog: pytest.LogCaptureFixture
) -> None:
    files.fail("sync configs.json.tmp", errno.ENOSPC)
    error = refused(asyncio.run, store.commit(CONFIGS, set_cluster(a="1")))
    path = f"{DATA_DIR}/configs.json"
    assert (error.code, error.detail) == (ErrorCode.KAFKA_STORAGE_ERROR, f"{path}: No space left on device")
    assert f"{path} cannot be written" in caplog.text
    assert store.current.configs.cluster == {}


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
