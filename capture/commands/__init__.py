"""The subcommands of `python -m capture`, one module each.

Each module has `HELP`, `add_arguments(parser)` and `run(args) -> int`, the exit code.
"""
