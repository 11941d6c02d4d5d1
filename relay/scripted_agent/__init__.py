"""An agent that plays a scenario file: the program behind the provider `scripted`.

It is started as a child like any agent CLI and speaks its own small line protocol on stdin and stdout.
Standard library only, so that it starts at once. `scenario` reads and checks the file, `reading` finds
out of a brief what is left to do, `stdio` is the line protocol, `player` plays turns, `tools` and
`trouble` are the steps. The demo and the tests use it; nothing else imports it.
"""
