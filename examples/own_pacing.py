"""A pacing function of your own: the share of the training queries grows as a square, slowly at first.

At step t the share is delta + (1 - delta) (t / T)^2, and 1 from step T on. The function and its entry are all that a
pacing function needs. To choose it in a study (`curriculum.pacing = ["square"]`), put both into
`trainables/curriculum/pacing.py`; see `docs/extending.md`.

Run it: python examples/own_pacing.py
"""

from trainables.curriculum import PACING
from trainables.utils.registry import Entry, Registry


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


ENTRY = Entry("square", square, "grows as a square: slowly at first", "an example", ("delta", "duration"))


def main() -> None:
    """Print the share of each pacing function at five steps."""
    functions = Registry(*PACING.entries, ENTRY)
    steps = (0, 25, 50, 75, 100)
    print(f"{'step':21}", *(f"{step:5}" for step in steps))
    for name, pace in functions.items():
        print(f"{name:21}", *(f"{pace(step, T=100, delta=0.2):5.3f}" for step in steps))


if __name__ == "__main__":
    main()
