"""`relay eval`: does Relay know what sort of task it is given, and does a continuation carry what it must?

`golden/` holds the cases: `routing.json`, and a file for each fidelity case, which is either a script of a
session (`scripts`), written as each CLI would (`writers`), or a recording of a real one. `run` finds the
session in its store, builds the contract as adoption does, and compares it with what the case expects.
Puts layers together; imported by `relay.cli` alone, and by the benchmarks for `writers`.
"""
