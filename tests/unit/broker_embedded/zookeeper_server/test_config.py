from pathlib import Path

import pytest

from broker_embedded._config.settings import SettingError
from broker_embedded._zookeeper_server.config import ServerConfig

GIVEN = {"clientPort": "2181", "dataDir": "/data"}
WORDS = "4lw.commands.whitelist"


def test_a_server_listens_on_loopback_unless_its_settings_have_an_address() -> None:
    config = ServerConfig.parse(GIVEN)
    assert (config.address, config.settings["clientPortAddress"]) == ("127.0.0.1:2181", "127.0.0.1")
    everywhere = ServerConfig.parse({**GIVEN, "clientPortAddress": "0.0.0.0"})
    assert (everywhere.address, everywhere.settings["clientPortAddress"]) == ("127.0.0.1:2181", "0.0.0.0")
    assert ServerConfig.parse({**GIVEN, "clientPortAddress": "::1"}).with_port(7).address == "[::1]:7"


@pytest.mark.parametrize(
    ("given", "allowed"),
    [({}, "ruok,srvr,stat,conf"), ({WORDS: "srvr"}, "srvr,conf"), ({WORDS: "*"}, "*")],
)
def test_the_word_that_shows_the_data_directory_is_always_allowed(given: dict[str, str], allowed: str) -> None:
    assert ServerConfig.parse({**GIVEN, **given}).settings[WORDS] == allowed


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        ({"dataDir": "/data"}, "clientPort: is required"),
        ({"clientPort": "2181", "dataDir": ""}, "dataDir: is required"),
        ({"clientPort": "many", "dataDir": "/data"}, "clientPort: 'many' is not a port"),
    ],
)
def test_a_missing_setting_is_named(given: dict[str, str], problem: str) -> None:
    with pytest.raises(SettingError, match=problem):
        ServerConfig.parse(given)


def test_directories_are_created_as_zookeeper_creates_them(tmp_path: Path) -> None:
    data, log = tmp_path / "a" / "data", tmp_path / "log"
    config = ServerConfig.parse({"clientPort": "2181", "dataDir": str(data), "dataLogDir": str(log)})
    config.make_directories()
    config.make_directories()
    assert [list(each.iterdir()) for each in (data / "version-2", log / "version-2")] == [[], []]


def test_a_missing_directory_is_an_error_if_zookeeper_does_not_create_it(tmp_path: Path) -> None:
    given = {"clientPort": "2181", "dataDir": str(tmp_path / "data"), "datadir.autocreate": "false"}
    with pytest.raises(OSError, match=r"dataDir: cannot create files in .*/data/version-2: No such file or directory"):
        ServerConfig.parse(given).make_directories()
    assert not (tmp_path / "data").exists()


def test_the_file_is_one_of_javas_properties(tmp_path: Path) -> None:
    ServerConfig.parse({**GIVEN, "dataDir": "/a\\b=ü\n"}).write(tmp_path / "zoo.cfg")
    assert (tmp_path / "zoo.cfg").read_text(encoding="ascii").splitlines() == [
        "clientPortAddress=127.0.0.1",
        "clientPort=2181",
        "dataDir=/a\\\\b\\=\\u00fc\\n",
        "4lw.commands.whitelist=ruok,srvr,stat,conf",
    ]
