"""The parts of the Redis backend: how rows are laid out, how they are found, and the line to the server."""
