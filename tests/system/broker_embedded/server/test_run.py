import asyncio
import logging
import socket
from pathlib import Path

import pytest

from broker_embedded._broker import DataDirectoryError
from broker_embedded._config.config import BrokerConfig
from broker_embedded._server.listener import ListenError
from broker_embedded._server.run import running_broker

CONFIG = BrokerConfig.parse({"listeners": "PLAINTEXT://127.0.0.1:0"})


def at(port: int) -> BrokerConfig:
    return BrokerConfig.parse({"listeners": f"PLAINTEXT://127.0.0.1:{port}"})


def test_a_stop_leaves_the_directory_in_order(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async def once() -> None:
        async with running_broker(CONFIG, str(tmp_path / "new" / "data")) as server:
            assert not (tmp_path / "new" / "data" / ".kafka_cleanshutdown").exists()
            await server.broker.topic_lifecycle.require("t")
            port = int(server.addresses[0].rpartition(":")[2])
            _, writer = await asyncio.open_connection("127.0.0.1", port)
        assert (tmp_path / "new" / "data" / ".kafka_cleanshutdown").exists()
        writer.close()
        with pytest.raises(ConnectionRefusedError):
            await asyncio.open_connection("127.0.0.1", port)

    with caplog.at_level(logging.WARNING):
        for _ in range(2):
            asyncio.run(once())
    assert caplog.messages == []


async def test_a_failure_inside_stops_the_broker_too(tmp_path: Path) -> None:
    with pytest.raises(ZeroDivisionError):
        async with running_broker(CONFIG, str(tmp_path)):
            raise ZeroDivisionError
    assert (tmp_path / ".kafka_cleanshutdown").exists()


async def test_a_cancelled_broker_stops_in_order(tmp_path: Path) -> None:
    async def serve(ready: asyncio.Event) -> None:
        async with running_broker(CONFIG, str(tmp_path)):
            ready.set()
            await asyncio.Event().wait()

    ready = asyncio.Event()
    task = asyncio.create_task(serve(ready))
    await asyncio.wait_for(ready.wait(), 20)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert (tmp_path / ".kafka_cleanshutdown").exists()


async def test_a_taken_port_leaves_the_data_alone(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        broker = running_broker(at(taken.getsockname()[1]), str(tmp_path / "data"))
        with pytest.raises(ListenError, match="Address already in use"):
            await broker.__aenter__()
    assert not (tmp_path / "data").exists()


async def test_a_locked_directory_gives_the_port_back(tmp_path: Path) -> None:
    async with running_broker(CONFIG, str(tmp_path)) as server:
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = free.getsockname()[1]
        with pytest.raises(DataDirectoryError, match="in use by another broker"):
            async with running_broker(at(port), str(tmp_path)):
                raise AssertionError("it should not have started")
        with socket.create_server(("127.0.0.1", port)):
            pass
        assert len(server._connections) == 0
