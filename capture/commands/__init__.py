"""The subcommands of `python -m capture`, one module each.

Each module has a docstring for `--help`, `add_arguments(parser)`, and `run(args) -> int`, the
exit code. What needs torch is imported inside `run`.
"""
