"""Ends only on the signals that it is not told to ignore: `stubborn.py INT TERM`."""

import signal
import sys

for name in sys.argv[1:]:
    signal.signal(getattr(signal, f"SIG{name}"), lambda *_: None)
print("ready", flush=True)
while True:
    signal.pause()
