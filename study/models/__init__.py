"""Trained models of a study: finds their weights, writes them for other programs with a card, and uploads them."""
