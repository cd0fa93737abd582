import pytest

from spark_kafka_native._zookeeper.connect_string import ConnectString


@pytest.mark.parametrize(
    ("text", "hosts", "chroot"),
    [
        ("a", "a:2181", ""),
        ("a:1", "a:1", ""),
        (" a:1 , b ", "a:1,b:2181", ""),
        ("a:1,b:2/kafka", "a:1,b:2", "/kafka"),
        ("a:1/kafka/test", "a:1", "/kafka/test"),
        ("a:1/", "a:1", ""),
        ("[::1]", "[::1]:2181", ""),
        ("[::1]:7/x", "[::1]:7", "/x"),
        ("a:1/with,comma", "a:1", "/with,comma"),
    ],
)
def test_servers_and_chroot_are_parsed(text: str, hosts: str, chroot: str) -> None:
    found = ConnectString.parse(text)
    assert (found.hosts, found.chroot) == (hosts, chroot)
    assert str(found) == hosts + chroot
    assert ConnectString.parse(str(found)) == found


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "names no server"),
        ("/kafka", "names no server"),
        ("zk://a:1", "has a scheme; expected HOST:PORT"),
        ("a:x", "'x' is not a port"),
        ("a:0", "'0' is not a port"),
        ("::1", "an IPv6 address needs brackets"),
        ("a:1//b", "has an empty name in it"),
        ("a:1/b/", "has an empty name in it"),
        ("a:1/b/../c", "has the name . or .. in it"),
        ("a:1/x\x00y", "has the character '\\x00'"),
        ("a:1/x,b:2/x", "is not after the last server"),
        ("a:1/x,b:2", "is not after the last server"),
    ],
)
def test_a_malformed_text_is_refused(text: str, problem: str) -> None:
    with pytest.raises(ValueError) as raised:  # noqa: PT011  # the message is compared below
        ConnectString.parse(text)
    assert problem in str(raised.value)
