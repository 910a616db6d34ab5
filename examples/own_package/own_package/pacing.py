"""A pacing function of your own: the share of the training queries grows as a square, slowly at first.

At step t the share is delta + (1 - delta) (t / T)^2, and 1 from step T on: `curriculum.pacing = ["square"]`.
"""

from trainables.curriculum import PACING


@PACING.register("square", "grows as a square: slowly at first", "an example", options=("delta", "duration"))
def square(step: float, T: float, delta: float = 0.33) -> float:  # noqa: N803
    """Return delta + (1 - delta) (t / T)^2, the square pacing at step t.

    Args:
        step: training step, from 0.
        T: step from which on all queries may be sampled, above 0.
        delta: share at step 0, in (0, 1].

    Raises:
        ValueError: an argument is out of its range.

    Example:
        >>> square(50, 100, delta=0.2)
        0.4
    """
    if step < 0 or T <= 0 or not 0 < delta <= 1:
        raise ValueError(f"expected step >= 0, T > 0 and delta in (0, 1], but got {step}, {T} and {delta}")
    return 1.0 if step >= T else delta + (1 - delta) * (step / T) ** 2
