"""The `relay` command and `python -m relay`. Answers `--version` before anything is imported."""

from __future__ import annotations

import sys


def main() -> None:
    """Run the command line of this process and exit with its code."""
    arguments = sys.argv[1:]
    if arguments in (["--version"], ["-V"]):
        from relay.version import VERSION

        sys.stdout.write(f"relay {VERSION}\n")
        return
    from relay.cli.app import run

    sys.exit(run(arguments))


if __name__ == "__main__":
    main()
