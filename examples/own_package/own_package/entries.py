"""The entries of this package, by which a study finds what it provides.

Every command of the project imports this module, so it imports nothing but `Entry` and `Loss`. The targets are imported
when a study uses them; that of the schedule always is, because its settings are keys of a study file.
"""

from trainables.losses import Loss
from trainables.utils.registry import Entry

FAQ = Entry(
    "faq",
    "own_package.faq:TASK",
    "questions and answers: faq.tsv with question, answer, split",
    "an example",
    ("path",),
)
JACCARD = Entry(
    "jaccard",
    "own_package.jaccard:JaccardSampler",
    "the documents that share most words with the query",
    "Jaccard (1912)",
)
POWERED = Entry(
    "powered",
    "own_package.schedules:powered",
    "falls as (1 - p)^power, where p is the share of training that is done",
    "an example",
)
HINGE = Entry(
    "hinge",
    Loss("Hinge", "own_package.losses:hinge", "margin", is_likelihood=False),
    "by how much the margin between a relevant and another document falls short of 1",
    "Herbrich, Graepel and Obermayer (2000)",
)
SQUARE = Entry(
    "square",
    "own_package.pacing:square",
    "grows as a square: slowly at first",
    "an example",
    ("delta", "duration"),
)
RBP = Entry("RBP", "own_package.metrics:RBP", "rank-biased precision", "Moffat and Zobel (2008)")
