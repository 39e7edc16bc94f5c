"""The Python API: what ``from testbed import run, plan, sweep, compare, Run`` gives notebooks and scripts."""
