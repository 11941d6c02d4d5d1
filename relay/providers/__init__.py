"""One module a provider: how it is launched, how its stream is read, how its limits are worded.

Pure: a provider turns values into argument lists and bytes into events; it starts nothing and opens
nothing. Imports `core`. Used by `effects` and by the adapter actor. `table` is the only place that
lists the providers; nothing outside this package names one.
"""
