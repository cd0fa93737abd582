"""What every kind of group is to the shell around it."""

from broker_embedded.groups.classic.group import ClassicGroup
from broker_embedded.groups.classic.state import ClassicConfig
from broker_embedded.groups.group import Group


def test_a_simple_group_is_a_classic_one_without_a_protocol() -> None:
    group: Group = ClassicGroup(group_id="g", config=ClassicConfig())
    assert (group.group_type, group.state_name, group.protocol_type, group.is_empty) == ("classic", "Empty", "", True)
