"""What the statistics are worth, by simulation: levels, power, pilots and rivals of the tests."""
