"""Cost of data at the papers' scale: measured where it can run here, derived or in simulated time where it cannot."""
