import asyncio
import errno
import logging
import socket

import pytest

from broker_embedded._config.addresses import Endpoint
from broker_embedded._server.listener import Listener, ListenError


def at(host: str, port: int = 0) -> Endpoint:
    return Endpoint(name="PLAINTEXT", host=host, port=port)


async def connect(port: int, host: str = "127.0.0.1") -> asyncio.StreamWriter:
    _, writer = await asyncio.wait_for(asyncio.open_connection(host, port), 10)
    return writer


async def test_port_0_takes_a_free_one_and_connections_are_handed_over() -> None:
    accepted: asyncio.Queue[tuple[socket.socket, str]] = asyncio.Queue()
    listener = Listener(at("127.0.0.1"), 50)
    assert listener.address == f"127.0.0.1:{listener.port}"
    assert listener.port > 0
    listener.start(lambda sock, peer: accepted.put_nowait((sock, peer)))
    for _ in range(3):
        writer = await connect(listener.port)
        sock, peer = await asyncio.wait_for(accepted.get(), 10)
        assert peer == "{}:{}".format(*writer.get_extra_info("sockname"))
        assert not sock.getblocking()
        assert sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
        assert sock.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
        sock.close()
        writer.close()
    listener.close()
    listener.close()
    with pytest.raises(ConnectionRefusedError):
        await connect(listener.port)


async def several_iterations() -> None:
    """Let the event loop see every open connection. Nothing to wait for: the listener must *not* accept one."""
    for _ in range(5):
        await asyncio.sleep(0)  # each iteration asks the system which sockets are ready


async def test_clients_wait_while_there_is_no_room() -> None:
    accepted: asyncio.Queue[socket.socket] = asyncio.Queue()
    room = [2]

    def accept(sock: socket.socket, _: str) -> None:
        room[0] -= 1
        accepted.put_nowait(sock)

    listener = Listener(at("127.0.0.1"), 50)
    listener.start(accept, lambda: room[0] > 0)
    writers = [await connect(listener.port) for _ in range(5)]
    for _ in range(2):
        (await asyncio.wait_for(accepted.get(), 10)).close()
    for left in (2, 0):
        await several_iterations()
        assert accepted.empty()
        room[0] = 1 if left else 5
        listener.resume()
        listener.resume()
        for _ in range(room[0] if left else 2):
            (await asyncio.wait_for(accepted.get(), 10)).close()
    for writer in writers:
        writer.close()
    room[0] = 0
    writers = [await connect(listener.port)]
    await several_iterations()
    listener.close()
    listener.resume()
    writers[0].close()


async def test_clients_wait_between_binding_and_starting() -> None:
    listener = Listener(at("127.0.0.1"), 50)
    writer = await connect(listener.port)
    accepted = asyncio.Event()

    def accept(sock: socket.socket, _: str) -> None:
        sock.close()
        accepted.set()

    listener.start(accept)
    await asyncio.wait_for(accepted.wait(), 10)
    listener.close()
    writer.close()


async def test_a_name_with_several_addresses_has_one_port() -> None:
    listener = Listener(at("localhost"), 50)
    families = {info[0] for info in socket.getaddrinfo("localhost", None, type=socket.SOCK_STREAM)}
    assert 1 <= len(listener._sockets) <= len(families)
    assert {sock.getsockname()[1] for sock in listener._sockets} == {listener.port}
    listener.close()


async def test_an_address_that_is_taken_is_named() -> None:
    listener = Listener(at("127.0.0.1"), 50)
    with pytest.raises(ListenError, match=f"cannot listen on 127.0.0.1:{listener.port}: Address already in use"):
        Listener(at("127.0.0.1", listener.port), 50)
    listener.close()


def test_a_host_that_is_not_there_is_named() -> None:
    with pytest.raises(ListenError, match=r"cannot listen on nowhere\.invalid:0"):
        Listener(at("nowhere.invalid"), 50)


async def test_without_descriptors_the_listener_pauses_and_resumes(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("broker_embedded._server.listener._PAUSE_S", 0.01)

    class Exhausted:
        """A listening socket whose system is out of descriptors the first time."""

        def __init__(self, sock: socket.socket) -> None:
            self._sock = sock
            self.calls = 0

        def accept(self) -> tuple[socket.socket, object]:
            self.calls += 1
            if self.calls == 1:
                raise OSError(errno.EMFILE, "Too many open files")
            return self._sock.accept()

        def fileno(self) -> int:
            return self._sock.fileno()

        def close(self) -> None:
            self._sock.close()

    with caplog.at_level(logging.WARNING):
        listener = Listener(at("127.0.0.1"), 50)
        tired = Exhausted(listener._sockets[0])
        listener._sockets = [tired]  # type: ignore[list-item]  # as much of a socket as is needed
        accepted = asyncio.Event()

        def accept(sock: socket.socket, _: str) -> None:
            sock.close()
            accepted.set()

        listener.start(accept)
        writer = await connect(listener.port)
        await asyncio.wait_for(accepted.wait(), 10)
        assert tired.calls >= 2
        listener.close()
        writer.close()
    assert "cannot accept connections on 127.0.0.1" in caplog.text
