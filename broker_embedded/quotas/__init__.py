"""Client quotas: how much each user and client may write, read, compute and change, and what is done about more.

`rates` measures, `entities` says whose quota is meant, `limits` finds the one that holds for a client, `enforcement`
tells how long a client must wait, `store` keeps them over restarts. All but `client_quotas`, which puts them together,
is pure.
"""
