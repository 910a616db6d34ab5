"""The analysis plan that is fixed before the first test score, and estimates of cost and of shared training."""
