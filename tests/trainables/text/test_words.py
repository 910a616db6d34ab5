"""Words of texts in scripts with combining marks and without blanks, and the one form of canonically equal texts."""

import unicodedata

import pytest

from trainables.data.ranking_preparation import check_words
from trainables.text.words import compose_text, find_words, fold_text, split_words


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("a_b's C3-po", ["a_b", "s", "c3", "po"]),
        ("naïve Ångström", ["naïve", "ångström"]),
        ("हिन्दी में किताब।", ["हिन्दी", "में", "किताब"]),
        ("தமிழ் புத்தகம்", ["தமிழ்", "புத்தகம்"]),
        ("كِتَابٌ جَدِيدٌ", ["كِتَابٌ", "جَدِيدٌ"]),
        ("می\N{ZERO WIDTH NON-JOINER}خواهم", ["می\N{ZERO WIDTH NON-JOINER}خواهم"]),
        ("Straße İstanbul", ["strasse", "i\u0307stanbul"]),
    ],
)
@pytest.mark.parametrize("form", ["NFC", "NFD"])
def test_a_word_keeps_its_marks_in_either_form(text: str, words: list[str], form: str) -> None:
    written, expected = unicodedata.normalize(form, text), [compose_text(word) for word in words]
    assert find_words(written) == expected
    assert [fold_text(word) for word in split_words(written.replace("-", " ").replace("'", " "))] == expected


@pytest.mark.parametrize(
    ("documents", "is_noted"),
    [
        (["如何格式化我的硬盘", "重新安装操作系统的步骤"], True),
        (["如何 格式化 我 的 硬盘", "重新 安装 操作 系统 的 步骤"], False),
        (["ฉันจะฟอร์แมตฮาร์ดดิสก์ได้อย่างไร"], True),
        (["हार्ड डिस्क को कैसे फ़ॉर्मेट करें"], False),
        (["How do I format a disk?", "硬盘格式化"], False),
        (["?!"], False),
    ],
)
def test_a_collection_without_blanks_between_words_is_noted(documents: list[str], is_noted: bool) -> None:
    assert bool(check_words(documents)) == is_noted
