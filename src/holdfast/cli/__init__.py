"""The command line: each command parses, calls the client and prints."""
