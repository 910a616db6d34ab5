"""Rules by which a study makes a ranker's input of two texts, in a file of the exported folder.

The libraries know the tokens of a pair and its length. They know neither after how many words a document is cut, nor
which side of a pair that is too long loses tokens.
"""

import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

import numpy as np
from pydantic import BaseModel, ConfigDict, PositiveInt, ValidationError

from trainables.text.words import truncate_words
from trainables.utils.arrays import Ints
from trainables.utils.errors import UserError
from trainables.utils.files import write_json

INPUT_RULES_FILE = "input_rules.json"
"""File in the folder of an exported ranker. A folder without it has the rules of the libraries, the defaults."""


class InputRules(BaseModel):
    """Rules of a ranker.

    Example:
        >>> rules = InputRules(document_words=2, joined_tokens=("[SEP]",))
        >>> rules.prepare_query("Hello? [SEP] Hi. [SEP]"), rules.prepare_document("one two three")
        ('Hello? Hi.', 'one two')
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    document_words: PositiveInt | None = None
    """Words after which a document is cut. If None, it is not cut."""
    truncation: Literal["library", "longest_first", "query_first", "oldest", "plain"] = "library"
    """Part that a too long pair loses.

    library: a token at a time from the end of the longer side; an odd token is for the text that was longer.
    longest_first: the same, but the odd token is for the query. query_first: the end of the query, then that of the
    document. oldest, plain: the end of the document, then the beginning or the end of the query. With these three the
    first side keeps at least a third of the tokens of a pair.
    """
    joined_tokens: tuple[str, ...] = ()
    """Tokens after the utterances of a query that the model does not read: the utterances are joined by blanks."""

    def prepare_query(self, text: str) -> str:
        """Return the text of a query that is tokenised."""
        if not self.joined_tokens:
            return text
        *parts, last = re.split("|".join(map(re.escape, self.joined_tokens)), text)
        return " ".join(part.strip() for part in [*parts, *([last] if last.strip() else [])])

    def prepare_document(self, text: str) -> str:
        """Return the text of a document that is tokenised."""
        return truncate_words(text, self.document_words)

    def cut_pairs(self, queries: Ints, documents: Ints, room: int, third: int) -> tuple[Ints, Ints]:
        """Return the tokens of query and document that are kept of each pair.

        `third` is what the side that is cut first keeps. All arrays are (pairs,). The odd token of "longest_first" is
        that of the code of Penha and Hauff and of the slow tokenizers of transformers, which take it from the document.

        Example:
            >>> query, document = InputRules().cut_pairs(np.array([280, 3]), np.array([90, 4]), 125, 42)
            >>> query.tolist(), document.tolist()
            ([63, 3], [62, 4])
        """
        if self.truncation == "library":
            return _cut_as_library(queries, documents, room)
        if self.truncation in ("longest_first", "query_first"):
            kept = third if self.truncation == "query_first" else room - room // 2
            queries = np.minimum(queries, np.maximum(kept, room - documents))
            return queries, np.minimum(documents, room - queries)
        documents = np.minimum(documents, np.maximum(third, room - queries))
        return np.minimum(queries, room - documents), documents


LIBRARY_RULES = InputRules()
"""Rules of the libraries."""


def _cut_as_library(queries: Ints, documents: Ints, room: int) -> tuple[Ints, Ints]:
    shorter = np.minimum(np.minimum(queries, documents), room // 2)
    is_query_shorter = queries <= documents
    fits = queries + documents <= room
    cut_queries = np.where(is_query_shorter, shorter, room - shorter)
    cut_documents = np.where(is_query_shorter, room - shorter, shorter)
    return np.where(fits, queries, cut_queries), np.where(fits, documents, cut_documents)


def write_input_rules(folder: Path, rules: InputRules) -> None:
    """Write the rules to the folder of an exported ranker."""
    write_json(folder / INPUT_RULES_FILE, rules.model_dump(mode="json"))


def read_input_rules(folders: Sequence[Path]) -> InputRules:
    """Return the rules of some models, which are the same.

    Raises:
        UserError: if the models have different rules, or a file is damaged.
    """
    rules = {_read_file(folder / INPUT_RULES_FILE) for folder in folders}
    if len(rules) > 1:
        raise UserError("MODEL", f"models with different {INPUT_RULES_FILE}", "models of one system of a study")
    return rules.pop()


def _read_file(file: Path) -> InputRules:
    if not file.is_file():
        return LIBRARY_RULES
    try:
        return InputRules.model_validate(json.loads(file.read_text(encoding="utf-8")))
    except (ValueError, ValidationError) as error:
        expected = "the file as study.export of this version writes it"
        raise UserError("MODEL", f"{file.name} of {file.parent.name!r} is damaged", expected) from error
