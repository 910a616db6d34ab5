"""Difficulty by size (Penha and Hauff 2020, section 3): what is long has more places where what matters can be."""

import numpy as np

from trainables.data.samplers import Floats, Ints
from trainables.difficulty.instances import Instances


def turns(instances: Instances) -> Floats:
    """(queries,) utterances of the context."""
    return np.array([len(context) for context in instances.contexts], dtype=np.float64)


def words_context(instances: Instances) -> Floats:
    """(queries,) mean words, parted by white space, an utterance of the context."""
    return np.array([sum(len(text.split()) for text in context) / len(context) for context in instances.contexts])


def words_responses(instances: Instances) -> Floats:
    """(queries,) mean words, parted by white space, a candidate."""
    words: Ints = np.array([len(text.split()) for text in instances.responses])
    means: Floats = words[instances.candidates].mean(axis=1)
    return means
