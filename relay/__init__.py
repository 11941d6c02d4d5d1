"""Relay keeps a coding task alive when the agent that works on it cannot go on.

The package imports nothing on its own: `relay --version` must answer at once.
Layers, from the inside out: `core` (pure rules), `providers` (agent CLIs), `store` (files),
`effects` (Trio tasks that touch the world), `actors` (who decides what happens),
`api` (HTTP and WebSocket) and `cli` (a client of the API).
"""
