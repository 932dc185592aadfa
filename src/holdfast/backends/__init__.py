"""One file per storage system. They know drivers and contracts, and nothing of the domain."""
