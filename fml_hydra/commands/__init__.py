"""The sub-commands: one module each, with `main(argv) -> exit code`."""
