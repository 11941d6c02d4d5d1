"""Prints numbers, each when a line comes in on stdin; ends when the input does."""

import sys

for number, _ in enumerate(sys.stdin.buffer, start=1):
    print(number, flush=True)
