"""Rules of runs and qrels that every reader follows, as trec_eval 10: fields, comments, numbers and ranks."""

import math
import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from numpy import integer
    from numpy.typing import NDArray

    from trainables.utils.arrays import Floats

RUN_FIELDS = 6
"""Fields of a line of a TREC run: query, Q0, document, rank, score, tag."""

_NUMBER = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?")


def split_fields(line: str) -> list[str]:
    r"""Return the fields of a line, which blanks and tabs separate; none of an empty line or a comment.

    Other kinds of white space, such as a no-break space, are part of a field.

    Example:
        >>> split_fields("q1 Q0\td\u00a01 1 2.5 bm25"), split_fields("# made by bm25")
        (['q1', 'Q0', 'd\xa01', '1', '2.5', 'bm25'], [])
    """
    fields = [field for field in line.replace("\t", " ").split(" ") if field]
    return [] if fields and fields[0].startswith("#") else fields


def drop_words_after_tag(fields: list[str]) -> list[str]:
    """Return the first six fields of a line of a run, which may have more words after its tag.

    If the fourth of more fields is no rank, all are returned: a blank within an id has shifted them.

    Example:
        >>> drop_words_after_tag("q1 Q0 d1 1 2.5 bm25 k1 = 0.9".split())
        ['q1', 'Q0', 'd1', '1', '2.5', 'bm25']
        >>> len(drop_words_after_tag("q1 Q0 the document 1 2.5 bm25".split()))
        7
    """
    has_words = len(fields) > RUN_FIELDS and not math.isnan(parse_number(fields[3]))
    return fields[:RUN_FIELDS] if has_words else fields


def parse_number(text: str) -> float:
    """Return a decimal number, or NaN if the text is none; Python's own parser would take 1_0 for 10.

    Example:
        >>> parse_number("-2.5e-3"), parse_number("1_0"), parse_number("inf")
        (-0.0025, nan, nan)
    """
    return float(text) if _NUMBER.fullmatch(text) else math.nan


def count_contradictions(queries: "NDArray[integer]", ranks: "Floats", scores: "Floats") -> int:
    """Return the number of queries in which a document has a better rank than another one, and a lower score.

    Args:
        queries: (pairs,) number of each query.
        ranks: (pairs,) ranks, lower is better; NaN where there is none.
        scores: (pairs,) scores, higher is better.

    Example:
        >>> import numpy as np
        >>> distances = np.array([0.1, 0.2, 0.9, 0.3])
        >>> count_contradictions(np.array([0, 0, 1, 1]), np.array([1.0, 2.0, 1.0, 2.0]), distances)
        1
    """
    import numpy as np  # imported here, since most readers of lines do not need it

    order = np.lexsort((-scores, ranks, queries))
    queries, ranks, scores = queries[order], ranks[order], scores[order]
    is_wrong = (queries[1:] == queries[:-1]) & (ranks[1:] > ranks[:-1]) & (scores[1:] > scores[:-1])
    return len(np.unique(queries[1:][is_wrong]))


def describe_contradictions(name: str, count: int, n_queries: int) -> list[str]:
    """Return a line about a run whose ranks contradict its scores in some queries; none if there are no such queries.

    Example:
        >>> describe_contradictions("knn.run", 0, 43)
        []
        >>> print(*describe_contradictions("knn.run", 43, 43))
        knn.run: ranks contradict scores in 43 of 43 queries; scores decide, higher is better: negate distances
    """
    consequence = "scores decide, higher is better: negate distances"
    return [f"{name}: ranks contradict scores in {count:,} of {n_queries:,} queries; {consequence}"] if count else []
