"""Runs a study's driver on a simulated machine: clock, disk, trials and W&B, with faults that a seed draws.

    python -m tests.simulation --seconds 60          # schedules of faults from seed 0 on; `make simulate SECONDS=60`
    python -m tests.simulation --seed 17             # one schedule again

The driver is the real one, from the opening of the study to its search log and W&B. Its trials train nothing: their
scores are functions of their specification. `machine` is the clock, the disk and the processes; `trials` takes the
place of Ray Tune; `world` makes the studies; `schedules` draws and shrinks; `checks` has the laws.
"""
