"""Prints its arguments, Python byte literals, to stdout ("2:": to stderr), and ends with status 3."""

import ast
import os
import sys

for argument in sys.argv[1:]:
    stream, literal = (2, argument[2:]) if argument.startswith("2:") else (1, argument)
    os.write(stream, ast.literal_eval(literal))
sys.exit(3)
