"""Client quotas: the limits of users and clients, and the throttle times of clients that exceed them. Pure.

`rates` measures, `entities` parses quota entities, `limits` finds the quota of a client, `enforcement` computes
throttle times. `_metadata.client_quotas` stores quotas.
"""
