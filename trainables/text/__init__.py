"""Texts that are compared or parsed: texts that splits share, and lines of the files of TREC."""
