"""Difficulty scores of training queries (Penha and Hauff 2020), computed once and cached."""
