"""Variants of rankers: every loss with every smoothing that it can have.

A name is that of the loss and that of the smoothing, as in LCE-T-WSLS. Either is left out where there is nothing to
say: T-WSLS has the default loss, LCE is unsmoothed, and BERT is both.
"""

from collections.abc import Iterator, Mapping
from functools import lru_cache

from trainables.losses import LOSSES
from trainables.smoothing import DISTRIBUTIONS
from trainables.smoothing.schedules import VARIANTS, Variant
from trainables.utils.registry import Entry

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

    Example:
        >>> [make_variant_name("lce", name) for name in ("T-WSLS", "BERT")], make_variant_name("cross_entropy", "LS")
        (['LCE-T-WSLS', 'LCE'], 'LS')
    """
    label = LOSSES[loss].label
    if not label:
        return smoothing
    return label if smoothing == BASELINE else f"{label}-{smoothing}"


class _RankerVariants(Mapping[str, Variant]):
    """Every variant by name, those of the default loss first and those of plug-ins included."""

    def __getitem__(self, name: str) -> Variant:
        return _combine_rows(LOSSES.entries, VARIANTS.entries)[name]

    def __iter__(self) -> Iterator[str]:
        return iter(_combine_rows(LOSSES.entries, VARIANTS.entries))

    def __len__(self) -> int:
        return len(_combine_rows(LOSSES.entries, VARIANTS.entries))


RANKER_VARIANTS: Mapping[str, Variant] = _RankerVariants()


@lru_cache(maxsize=1)
def _combine_rows(losses: tuple[Entry, ...], smoothings: tuple[Entry, ...]) -> dict[str, Variant]:
    variants = {}
    for loss in (entry.name for entry in losses):
        for name, row in ((entry.name, entry.target) for entry in smoothings):
            if row.distribution not in DISTRIBUTIONS:
                variants[name] = row  # which `StudyType.check` reports
            elif can_smooth(loss, row.distribution):
                others = tuple(make_variant_name(loss, other) for other in row.compared_with)
                variants[make_variant_name(loss, name)] = row._replace(loss=loss, compared_with=others)
    return variants
