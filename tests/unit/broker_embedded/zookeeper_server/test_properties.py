"""Which properties a ZooKeeper server is started with."""

import pytest

from broker_embedded._config.settings import SettingError
from broker_embedded._zookeeper_server.properties import check_properties


@pytest.mark.parametrize(
    "given",
    [
        {"tickTime": "2000", "maxClientCnxns": "0", "minSessionTimeout": "-1", "syncEnabled": "TRUE"},
        {"clientPort": "0", "secureClientPort": "65535", "electionAlg": "3", "peerType": "Observer"},
        {
            "admin.enableServer": "false",
            "4lw.commands.whitelist": "*",
            "authProvider.sasl": "a.B",
            "jute.maxbuffer": "9",
        },
        {"snapCount": "10", "forceSync": "no", "skipACL": "yes", "my.property": "x"},
        {"server.1": "a:1:2", "server.2": "b:1:2;2181", "initLimit": "5", "syncLimit": "2", "group.1": "1:2"},
        {"server.1": "a:1:2", "server.2": "b:1:2:observer"},
        {"jvm.pause.sleep.time.ms": "5000000000"},
    ],
)
def test_properties_of_zookeeper_and_of_its_plugins_are_allowed(given: dict[str, str]) -> None:
    check_properties(given)


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        ({"tickTime": "2s"}, "tickTime: '2s' is not a whole number from 1 to 2147483647"),
        ({"tickTime": "0"}, "tickTime: '0' is not a whole number from 1 to"),
        ({"tickTime": "2147483648"}, "tickTime: '2147483648' is not a whole number"),
        ({"maxClientCnxns": "9" * 5000}, "maxClientCnxns: '999"),
        ({"initLimit": "٣"}, "initLimit: '٣' is not a whole number"),
        ({"electionAlg": "0"}, "electionAlg: '0' is not a whole number from 3 to 3"),
        ({"autopurge.purgeInterval": "1h"}, "autopurge.purgeInterval: '1h' is not a whole number"),
        ({"secureClientPort": "65536"}, "secureClientPort: '65536' is not a port"),
        ({"syncEnabled": "yes"}, "syncEnabled: 'yes' is neither true nor false"),
        ({"peerType": "leader"}, "peerType: 'leader' is neither participant nor observer"),
        ({"tickTme": "1"}, "tickTme: ZooKeeper has no such property; did you mean tickTime?"),
        ({"datadir": "/d"}, "datadir: ZooKeeper has no such property; did you mean dataDir?"),
        ({"unknown": "1"}, "unknown: ZooKeeper has no such property"),
        (
            {"tickTime": "500", "minSessionTimeout": "20000"},
            "minSessionTimeout: the shortest session timeout, 20000 ms, is longer than the longest one, 10000 ms",
        ),
        ({"maxSessionTimeout": "1"}, "maxSessionTimeout: the shortest session timeout, 6000 ms, is longer than"),
        ({"quorum.auth.serverRequireSasl": "true"}, "quorum.auth.serverRequireSasl: it requires quorum.auth.enable"),
        ({"server.1": "a:1:2", "server.2": "b:1:2", "initLimit": "5"}, "syncLimit: is required, because the lines"),
    ],
)
def test_a_wrong_property_is_named(given: dict[str, str], problem: str) -> None:
    with pytest.raises(SettingError) as refused:
        check_properties(given)
    assert str(refused.value).startswith(problem)
