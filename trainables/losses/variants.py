"""Variants of rankers: every loss with every smoothing that it can have.

A name is that of the loss and that of the smoothing, as in LCE-T-WSLS. Either is left out where there is nothing to
say: T-WSLS has the default loss, LCE is unsmoothed, and BERT is both.
"""

from trainables.losses import LOSSES
from trainables.smoothing import DISTRIBUTIONS
from trainables.smoothing.schedules import VARIANTS, Variant

BASELINE = "BERT"
"""Name of the unsmoothed default loss."""


def can_smooth(loss: str, distribution: str) -> bool:
    """Return whether a loss can have a distribution.

    A distribution that is not the baseline must say something for this kind of loss, or the variant would be its
    baseline by another name. The target of a distillation is a ranking already: it is neither mixed with that of the
    sampler nor relaxed. What is relaxed is the probability of a label, so the loss must be a likelihood.
    """
    smoothing, row = DISTRIBUTIONS[distribution], LOSSES[loss]
    mixed_with = smoothing.scores if row.is_per_query else smoothing.relevance
    if distribution != "none" and not (mixed_with or smoothing.relaxes):
        return False
    if row.is_distillation:
        return not (smoothing.needs_sampler or smoothing.relaxes)
    return row.is_likelihood or not smoothing.relaxes


def make_variant_name(loss: str, smoothing: str) -> str:
    """Return the name of a variant.

    Args:
        loss: name of the loss.
        smoothing: name of the smoothing.

    Example:
        >>> [make_variant_name("lce", name) for name in ("T-WSLS", "BERT")], make_variant_name("cross_entropy", "LS")
        (['LCE-T-WSLS', 'LCE'], 'LS')
    """
    label = LOSSES[loss].label
    if not label:
        return smoothing
    return label if smoothing == BASELINE else f"{label}-{smoothing}"


def list_variants() -> dict[str, Variant]:
    """Return every variant by name, those of the default loss first.

    A row without a known distribution is returned as it is: the type of the study reports it.
    """
    variants = {}
    for loss in LOSSES:
        for name, row in VARIANTS.items():
            if row.distribution not in DISTRIBUTIONS:
                variants[name] = row
            elif can_smooth(loss, row.distribution):
                others = tuple(make_variant_name(loss, other) for other in row.compared_with)
                variants[make_variant_name(loss, name)] = row._replace(loss=loss, compared_with=others)
    return variants
