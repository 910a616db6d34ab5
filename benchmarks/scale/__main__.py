"""Cost of data at the papers' scale.

python -m benchmarks.scale [features] [requests] [places] [preparation]
"""

import sys

from benchmarks.measure import machine
from benchmarks.scale import features, places, preparation, requests


def _run_features() -> None:
    features.measure()
    features.derive()


_PARTS = {
    "features": _run_features,
    "requests": requests.measure,
    "places": places.measure,
    "preparation": preparation.measure,
}


if __name__ == "__main__":
    print(machine())
    for part in sys.argv[1:] or _PARTS:
        _PARTS[part]()
