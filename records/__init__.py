"""Files that a study leaves and its report reads: each with its schema, its writer and its only reader."""
