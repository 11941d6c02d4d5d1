"""The version, alone in a module so that `relay --version` imports nothing else."""

VERSION = "0.1.0"
