"""The status page of a broker: static files, and the JSON that its script reads.

`page` routes requests. `query` validates their fields and bounds the rows of responses. `overview` and `coordination`
describe the broker, its topics and its groups; `recent_warnings` stores those of the log. `record_search` takes
requests for records. `record_reader` reads their batches and sends them by `worker_process` to a process of its own,
`worker`, which decodes them with `records` and `avro_values`. `worker_protocol` has their messages.

Everything is read-only. A response has at most 500 rows or 4 MiB of records.
"""
