"""Errors of ZooKeeper. They do not import kazoo, because programs that do not use ZooKeeper catch them, too."""


class ZooKeeperError(Exception):
    """A request to ZooKeeper failed, or the data of a znode is not valid. ``str()`` names the servers or the znode."""


class ConnectionLost(ZooKeeperError):
    """The connection or the session was lost, which concerns all requests."""
