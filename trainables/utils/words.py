"""Words of a text: cuts a text after some of them."""


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
