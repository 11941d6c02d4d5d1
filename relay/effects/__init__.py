"""What Relay does in the world: child processes, git, verify commands, files, clock.

Each effect is an async function on Trio that takes a request value of `relay.core.effects` and returns
a report value. Imports `core`, `providers` and `store`. Used by the daemon, through the effects port.
"""
