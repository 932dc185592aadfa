"""SurrealDB in pieces: the engine, the tables, ranges of record ids, reading, writing, blobs."""
