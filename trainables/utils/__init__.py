"""Helpers that know nothing of ranking: errors, whole files, hashes, named random streams, processes, signals."""
