"""Who a client is: SASL as brokers speak it, without a socket, a clock or a file.

`plain` and `scram` are the mechanisms, `session` is what a connection may ask for and when, `listener` how its clients
log in. `credentials` are what SCRAM knows of users instead of their passwords: `alterations` changes them,
`first_users` makes the first ones; `metadata.scram_users` keeps them.
"""
