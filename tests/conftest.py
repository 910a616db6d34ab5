"""Property tests draw the same examples on every machine, and are not timed: the machine is shared."""

from hypothesis import settings

settings.register_profile("reproducible", derandomize=True, deadline=None)
settings.load_profile("reproducible")
