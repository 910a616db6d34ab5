"""A schedule of your own: the strength of the smoothing falls as a quadratic, epsilon x (1 - p)^2.

Here p is the share of training that is done. The function and its entry are all that a schedule without settings needs.
To choose it in a study (`search.schedule = ["quadratic"]`), put both into `trainables/smoothing/schedules.py`; see
`docs/extending.md`.

Run it: python examples/own_schedule.py
"""

from trainables.smoothing import SCHEDULES
from trainables.utils.registry import Entry, Registry


def quadratic(epsilon: float, seen: int, total: int) -> float:
    """Return a strength that falls as (1 - p)^2, where p is the share of training that is done.

    Args:
        epsilon: strength of the smoothing at the start.
        seen: instances trained so far.
        total: instances of the whole training.

    Example:
        >>> quadratic(0.4, 50, 100)
        0.1
    """
    return epsilon * (1 - seen / total) ** 2


ENTRY = Entry("quadratic", quadratic, "falls as (1 - p)^2, where p is the share of training that is done", "an example")


def main() -> None:
    """Print the strength of each schedule, with its default settings, at five points of training."""
    schedules = Registry(*SCHEDULES.entries, ENTRY)
    print(f"{'p':13}", *(f"{share:5.2f}" for share in (0.0, 0.25, 0.5, 0.75, 1.0)))
    for name, schedule in schedules.items():
        print(f"{name:13}", *(f"{schedule(0.4, seen, 100):5.3f}" for seen in (0, 25, 50, 75, 100)))


if __name__ == "__main__":
    main()
