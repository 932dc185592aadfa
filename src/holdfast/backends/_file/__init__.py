"""The parts of the file backend, each a file; `backends/file.py` puts them together."""
