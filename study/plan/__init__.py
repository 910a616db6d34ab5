"""Analysis plan, fixed before the first test score, and estimates of cost and shared training."""
