"""Words, text files, the runs and qrels of TREC among them, and texts that splits share."""
