"""A two-way child: tells the length and digest of every line it reads, and of the end of its input."""

import hashlib
import sys

print("ready", flush=True)
for line in sys.stdin.buffer:
    print("got", len(line), hashlib.sha256(line).hexdigest()[:8], flush=True)
print("end of input", flush=True)
sys.exit(7)
