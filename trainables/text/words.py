r"""Words of a text, and the forms in which texts and words are compared.

The composed and the decomposed form of Unicode (NFC and NFD) are the same text. Combining marks belong to their word:
the vowel signs of Hindi and Tamil, the vowels of Arabic. The `\w` of regular expressions leaves them out.
"""

import re
import sys
import unicodedata
from collections.abc import Iterable
from functools import lru_cache

_JOINERS = "\N{ZERO WIDTH NON-JOINER}\N{ZERO WIDTH JOINER}"
_UNSPACED = re.compile(
    "["
    "\u0e00-\u0eff"  # Thai and Lao
    "\u1000-\u109f"  # Burmese
    "\u1780-\u17ff"  # Khmer
    "\u3041-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"  # Japanese and Chinese
    "]+"
)
"""Letters and marks of the scripts that do not separate words."""
_WORD_LENGTH = 5
"""Characters of a word in such a script, which words on average do not exceed once they are separated."""


def compose_text(text: str) -> str:
    r"""Return the text in the form in which texts are compared: composed (NFC).

    Example:
        >>> compose_text("cafe\u0301") == "caf\u00e9"
        True
    """
    return unicodedata.normalize("NFC", text)


def fold_text(text: str) -> str:
    """Return the text in the form in which texts are compared regardless of case: case-folded and composed.

    It is the lower case of a text in ASCII.

    Example:
        >>> fold_text("CAFÉ"), fold_text("Straße")
        ('café', 'strasse')
    """
    return text.lower() if text.isascii() else compose_text(unicodedata.normalize("NFD", text).casefold())


def find_words(text: str) -> list[str]:
    """Return the case-folded words of a text: letters, digits and underscores, with their combining marks.

    A script without blanks between words has no other words than its phrases.

    Example:
        >>> find_words("Formatting the disk!")
        ['formatting', 'the', 'disk']
        >>> len(find_words("किताब पढ़ो"))
        2
    """
    return re.findall(r"\w+", text.lower()) if text.isascii() else _compile_word().findall(fold_text(text))


def split_words(text: str) -> list[str]:
    """Split a text at white space into composed words without surrounding punctuation.

    Punctuation alone is not a word.

    Example:
        >>> split_words("Well - it's (mostly) done!")
        ['Well', "it's", 'mostly', 'done']
    """
    return _compile_quoted_word().findall(compose_text(text))


def truncate_words(text: str, limit: int | None) -> str:
    """Return the text, cut after `limit` words, which white space separates.

    A text that is not cut keeps its white space.

    Args:
        text: The text.
        limit: Most words that are kept, from 1. If None, all are kept.

    Example:
        >>> truncate_words("one  two  three", 2), truncate_words("one  two", 2)
        ('one two', 'one  two')
    """
    if limit is None:
        return text
    parts = text.split(maxsplit=limit)
    return text if len(parts) <= limit else " ".join(parts[:limit])


def has_separated_words(texts: Iterable[str]) -> bool:
    """Return False if most of the letters are phrases of a script without blanks between words.

    Example:
        >>> has_separated_words(["How do I format a disk?"]), has_separated_words(["如何格式化硬盘"])
        (True, False)
        >>> has_separated_words(["如何 格式化 硬盘"])
        True
    """
    n_letters, n_phrases, n_unspaced = 0, 0, 0
    for text in texts:
        phrases = [] if text.isascii() else _UNSPACED.findall(text)
        n_letters += sum(map(str.isalpha, text))
        n_phrases += len(phrases)
        n_unspaced += sum(map(len, phrases))
    return n_unspaced <= n_letters / 2 or n_unspaced <= _WORD_LENGTH * n_phrases


@lru_cache(maxsize=1)
def _list_marks() -> str:
    """Return the combining marks for the brackets of a regular expression."""
    marks = [code for code in range(sys.maxunicode + 1) if unicodedata.category(chr(code)).startswith("M")]
    return "".join(map(chr, marks))


@lru_cache(maxsize=1)
def _compile_word() -> re.Pattern[str]:
    part = rf"[\w{_list_marks()}]"
    return re.compile(rf"\w{part}*(?:[{_JOINERS}]+{part}+)*")


@lru_cache(maxsize=1)
def _compile_quoted_word() -> re.Pattern[str]:
    return re.compile(rf"\w(?:\S*\w)?[{_list_marks()}]*")
