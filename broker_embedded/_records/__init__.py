"""Records of the coordinators' topics, ``__consumer_offsets`` and ``__transaction_state``: the common parts.

`coordinator_record` encodes and decodes them, `last_records` finds the records of a log to replay. The records of
groups are in `broker_embedded._groups`, those of transactional ids in `broker_embedded._transactions`.
"""
