import asyncio
import json
import urllib.request
from pathlib import Path

import pytest

from broker_embedded.config.settings import SettingError
from broker_embedded.platform.clocks import ShiftedClock
from broker_embedded.testing.command import ControlOptions, controlled_broker
from broker_embedded.testing.control_address import ControlAddress
from tests.support.requests.raw_client import RawClient


def test_options_of_the_control_port() -> None:
    options = ControlOptions.parse("127.0.0.1:0", clock="manual:5")
    assert options.address == ControlAddress(host="127.0.0.1", port=0)
    assert options.clock.now_ms() == 5
    assert isinstance(ControlOptions.parse("127.0.0.1:0").clock, ShiftedClock)
    with pytest.raises(SettingError, match="--control-listener"):
        ControlOptions.parse("0.0.0.0:0")
    assert ControlOptions.parse("0.0.0.0:0", allow_remote=True).address.host == "0.0.0.0"


async def test_the_lines_say_where_broker_and_port_are(tmp_path: Path) -> None:

    def look(first: str, second: str, port: str) -> None:
        for line in (first, second):
            RawClient(line.removeprefix("listening on ")).sock.close()
        with urllib.request.urlopen(port.removeprefix("controlled at "), timeout=60) as response:
            assert json.loads(response.read())["bootstrap_servers"] == first.removeprefix("listening on ")

    settings = {
        "listeners": "PLAINTEXT://127.0.0.1:0,SECOND://127.0.0.1:0",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,SECOND:PLAINTEXT",
    }
    async with controlled_broker(settings, str(tmp_path), ControlOptions.parse("127.0.0.1:0")) as lines:
        first, second, port = lines
        await asyncio.to_thread(look, first, second, port)
