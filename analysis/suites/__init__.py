"""Several studies as one: their plan, the comparisons over all of them, and the joint report."""
