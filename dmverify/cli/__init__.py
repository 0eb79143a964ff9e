"""The command line: one file a verb. It prints; nothing below it does."""
