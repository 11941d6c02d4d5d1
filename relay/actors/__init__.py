"""Who decides: the actors, their messages and the runtime that carries them.

Handlers are synchronous and do no I/O. Imports `core`, and `providers` for their pure parts;
everything else is reached by message through the effects port.
"""
