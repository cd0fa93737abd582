import random
from contextlib import suppress

import pytest

from spark_kafka_native._protocol.errors import KafkaError
from tests.support.broker.disk import SimulatedCrash
from tests.support.broker.log_manager_driver import T0, T1, TOPIC_ID, U0, ManagerDriver

SEEDS = 4


@pytest.fixture
def driver() -> ManagerDriver:
    return ManagerDriver()


def everything(driver: ManagerDriver, done: dict[str, int]) -> None:
    """Every procedure of a manager; ``done`` gets the records that must survive, by partition."""
    manager = driver.manager
    manager.create_all([T0, T1], TOPIC_ID)
    done.update({"t-0": 0, "t-1": 0})
    driver.append(T0, 7)
    manager.logs[T0].local.flush()
    done["t-0"] = 7
    manager.checkpoint_recovery_points()
    driver.append(T0, 2)
    manager.create_all([U0], TOPIC_ID)
    done["u-0"] = 0
    del done["t-1"]
    manager.delete_all([T1])
    done["t-1"] = -1
    manager.delete_records(T0, 6)
    driver.clock.advance(2000)
    manager.delete_old_segments()
    manager.remove_files(driver.clock.now_ms())
    driver.append(U0, 3)
    manager.close()
    done.update({"t-0": 9, "u-0": 3})


def test_a_crash_at_any_step_loses_no_acknowledged_record() -> None:
    probe = ManagerDriver()
    everything(probe, {})
    steps = len(probe.faults.steps)
    for step in range(steps + 1):
        for seed in range(SEEDS):
            driver, done = ManagerDriver(), dict[str, int]()
            driver.faults.crash_at, driver.faults.torn = step, bool(seed % 2)
            with suppress(SimulatedCrash):
                everything(driver, done)
            driver.crash(random.Random(seed) if seed else None)
            ends = driver.ends()
            for name, count in done.items():
                assert (name not in ends) if count < 0 else ends[name] >= count, f"{name} at step {step}, {seed=}"
            if "u-0" not in done:
                driver.manager.delete_all([U0])
                driver.manager.create_all([U0], TOPIC_ID)
            driver.append(U0)
            driver.restart()
            assert driver.ends() == {**ends, "u-0": ends.get("u-0", 0) * ("u-0" in done) + 1}


@pytest.mark.parametrize("space", range(0, 260, 20))
def test_a_full_disk_at_the_end_costs_a_recovery_not_records(driver: ManagerDriver, space: int) -> None:
    driver.manager.create_all([T0, T1], TOPIC_ID)
    for partition in (T0, T1):
        driver.append(partition, 7)
        driver.manager.logs[partition].local.flush()
    driver.manager.delete_records(T0, 3)
    driver.faults.space = space
    with suppress(KafkaError):
        driver.manager.close()
    driver.faults.heal()
    driver.disk.crash()
    driver.start()
    assert driver.ends() == {"t-0": 7, "t-1": 7}
    assert driver.manager.logs[T0].log_start_offset == 3
    driver.append(T0)
    driver.restart()
    assert driver.ends() == {"t-0": 8, "t-1": 7}
