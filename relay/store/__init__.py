"""Files on disk: the audit log, session state, contracts, key and token.

Imports `core`. Blocking code, called from threads by `effects`, and by `api` and `cli` for reads.
"""
