"""Writes much: `flood.py <MiB to stdout> <MiB to stderr>`, in lines of 128 bytes, to both in turn."""

import os
import sys

out, err = (int(argument) * 8 for argument in sys.argv[1:3])
chunk = (b"x" * 127 + b"\n") * 1024
for turn in range(max(out, err)):
    if turn < out:
        os.write(1, chunk)
    if turn < err:
        os.write(2, chunk)
