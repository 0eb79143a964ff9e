"""The command line: one file a verb. It prints; nothing below it does."""

from dmverify.cli.main import cli, main

__all__ = ["cli", "main"]
