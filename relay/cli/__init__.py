"""The `relay` command: a client of the API.

Imports `core`, and `api` only to start the daemon. Modules are imported when their command runs,
so that `relay --version` answers in under 100 ms.
"""
