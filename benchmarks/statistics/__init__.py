"""The statistics, by simulation: levels, power, pilots and rivals of the tests."""
