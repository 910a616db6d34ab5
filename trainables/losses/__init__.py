"""Losses of rankers: for single pairs, for pairs of documents, and for the candidates of a query.

The package itself loads neither torch nor numpy; the functions of the losses do.
"""

import re
from typing import Literal, NamedTuple, get_args

from trainables.smoothing import DISTRIBUTIONS
from trainables.smoothing.schedules import VARIANTS
from trainables.utils.errors import UserError
from trainables.utils.registry import Entry, Registry

DEFAULT_LOSS = "cross_entropy"
DEFAULT_TEMPERATURE = 1.0
"""Divisor of the scores that a loss or its smoothing reads, if a configuration does not name one."""
Form = Literal["pointwise", "pairwise", "margin", "listwise"]
_SYSTEMS = ("BM25", "CL", "before", "cosine", "untrained")
"""Names of systems that no loss makes."""


class Loss(NamedTuple):
    """A loss of rankers.

    Attributes:
        label: what precedes the smoothing in the name of a variant, as in "LCE-T-WSLS". Empty for the default loss.
        function: "module:function" of (logits, targets), tensors of one type. It returns the loss of each term,
            shape (terms,). The form says what a term is and which shapes both have.
        form: kind of the terms, see `trainables.losses.forms`. "pointwise": a query-document pair, with logits of shape
            (terms, outputs) and as target the probability of relevance, (terms,). "pairwise": a relevant and a
            non-relevant document of a query, with the difference of their logits and the probability that the first is
            better, both (terms,). "margin": the same with the difference of the scores as the target. "listwise": a
            query, with the logits and a distribution over its candidates, both (terms, candidates).
        outputs: outputs of the model's head: 1, the default; or 2, logits of not relevant and relevant.
        is_likelihood: True if the loss of a hard target is the negative logarithm of its probability, which label
            relaxation needs. Default True.
        is_distillation: True if the hard target is the ranking of a teacher or of the sampler, not the labels. Default
            False.
    """

    label: str
    function: str
    form: Form
    outputs: int = 1
    is_distillation: bool = False
    is_likelihood: bool = True

    @property
    def is_per_query(self) -> bool:
        """True if the loss needs all candidates of a query together."""
        return self.form != "pointwise"

    @property
    def has_probabilities(self) -> bool:
        """True if a probability of relevance follows from the logits of a pair."""
        return self.form == "pointwise" and self.is_likelihood


def _check_loss(entry: Entry, place: str) -> None:
    """Raise an error if a form or a label is wrong; variants are named by the labels."""
    loss: Loss = entry.target
    if loss.form not in get_args(Form):
        raise UserError(place, f"the form {loss.form!r}", f"one of {', '.join(get_args(Form))}")
    if not re.fullmatch(r"[A-Za-z0-9]+", loss.label):
        raise UserError(place, f"the label {loss.label!r}", "letters and digits alone")
    names = [*VARIANTS, *(other.label for other in LOSSES.values()), *_SYSTEMS]
    if any(name == loss.label or name.startswith(f"{loss.label}-") for name in names):
        raise UserError(place, f"the label {loss.label!r}, with which names of other systems begin", "another label")


LOSSES: Registry[Loss] = Registry(
    Entry(
        DEFAULT_LOSS,
        Loss("", "trainables.losses.pointwise:cross_entropy", "pointwise", outputs=2),
        "cross-entropy of each pair, with a logit for not relevant and one for relevant",
        "Nogueira and Cho (2019); Penha and Hauff (2021)",
    ),
    Entry(
        "binary_cross_entropy",
        Loss("BCE", "trainables.losses.pointwise:binary_cross_entropy", "pointwise"),
        "cross-entropy of each pair, with one logit",
        "sentence-transformers, BinaryCrossEntropyLoss",
    ),
    Entry(
        "ranknet",
        Loss("RankNet", "trainables.losses.pairwise:ranknet", "pairwise"),
        "cross-entropy of the order of two documents, for each relevant and other document",
        "Burges et al. (2005), equation 3",
    ),
    Entry(
        "lce",
        Loss("LCE", "trainables.losses.listwise:softmax_cross_entropy", "listwise"),
        "localised contrastive estimation: cross-entropy over the candidates of a query",
        "Gao, Dai and Callan (2021)",
    ),
    Entry(
        "margin_mse",
        Loss("MarginMSE", "trainables.losses.pairwise:margin_mse", "margin", is_distillation=True),
        "squared error of the difference of two scores from that of the teacher's scores",
        "Hofstätter et al. (2020)",
        ("temperature",),
    ),
    Entry(
        "kl",
        Loss("KL", "trainables.losses.listwise:kl_divergence", "listwise", is_distillation=True),
        "divergence of the softmax over a query's candidates from that of the teacher's scores",
        "Cao et al. (2007), ListNet; Hinton et al. (2015)",
        ("temperature",),
    ),
    kind=Loss,
    check=_check_loss,
)
"""Loss name -> loss."""


def has_temperature(loss: str, distribution: str) -> bool:
    """Return whether a loss with a distribution reads scores of a teacher or of the sampler, divided by a temperature.

    Example:
        >>> has_temperature("lce", "weak_supervision"), has_temperature("cross_entropy", "weak_supervision")
        (True, False)
    """
    is_weak = LOSSES[loss].is_per_query and DISTRIBUTIONS[distribution].needs_sampler
    return LOSSES[loss].is_distillation or is_weak
