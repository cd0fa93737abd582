"""How clients log in on a listener."""

from broker_embedded.security.listener import SaslListener
from spark_kafka_native.net.secret import Secret


def test_passwords_do_not_print() -> None:
    users = {"alice": Secret("hunter2")}
    listener = SaslListener(
        mechanisms=("PLAIN",), plain_users=users, max_reauth_ms={"PLAIN": 0}, max_receive_bytes=524288
    )
    assert "hunter2" not in repr(listener)
    assert listener.plain_users["alice"].reveal() == "hunter2"
