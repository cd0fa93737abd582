"""Who a client is: SASL as brokers speak it, without a socket, a clock or a file.

`mechanisms` are PLAIN and SCRAM, `session` says which requests a connection may send and when, and how a listener's
clients log in. `credentials` are what SCRAM knows of users instead of their passwords: `alterations` changes them,
`first_users` makes the first ones; `metadata.scram_users` keeps them.
"""
