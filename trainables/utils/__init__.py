"""General helpers: errors, registries, atomic files, hashes, named random streams, processes and signals."""
