"""The broker's side of SASL. Pure.

`mechanisms` are PLAIN and SCRAM. `session` checks which requests a connection may send before and after a login.
`credentials` are those of SCRAM, `alterations` changes them, `first_users` creates the first ones;
`_metadata.scram_users` stores them.
"""
