"""HTTP and WebSocket: Quart-Trio routes, one file a resource, and who may come in.

Imports `actors`, `core` and `store` (reads). Imported by `cli` only to start the daemon.
"""
