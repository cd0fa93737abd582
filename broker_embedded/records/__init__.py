"""Records of the coordinators' topics, ``__consumer_offsets`` and ``__transaction_state``: what both have in common.

`coordinator_record` encodes and decodes them, `last_records` says which of a log's records count. The records of
groups are in `broker_embedded.groups`, those of transactional ids in `broker_embedded.transactions`.
"""
