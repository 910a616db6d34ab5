"""General helpers: errors, atomic files, hashes, named random streams, processes and signals."""
