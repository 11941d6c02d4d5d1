"""The rules, as frozen values and pure functions.

Imports nothing of Relay but `relay.errors`; no framework, no file, no clock: time and ids are
arguments. Every other package may import it.
"""
