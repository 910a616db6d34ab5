"""Values worked by hand, and the utterances of a query's text."""

from hypothesis import given
from hypothesis import strategies as st

from tests.trainables.difficulty.small import written
from trainables.data.tasks import TASKS, get_task
from trainables.data.tasks.dialogues import SEPARATORS, join_utterances
from trainables.difficulty.text_scores import turns, words_context, words_responses

utterance = st.text(min_size=1).map(str.strip).filter(lambda text: text and not any(s in text for s in SEPARATORS))


def test_lengths_by_hand() -> None:
    instances = written([["how do I", "what"], ["a b  c\td"]], [["x y", "x", "z z z"], ["x", "x y", "x"]])
    assert turns(instances).tolist() == [2.0, 1.0]
    assert words_context(instances).tolist() == [2.0, 4.0]
    assert words_responses(instances).tolist() == [2.0, 4 / 3]


@given(st.lists(utterance, min_size=1, max_size=6))
def test_utterances_are_those_that_a_context_was_made_of(texts: list[str]) -> None:
    assert get_task("dialogues").split_utterances(join_utterances(texts)) == texts


def test_an_utterance_that_says_a_separator_is_counted_and_no_mistake() -> None:
    assert get_task("dialogues").split_utterances(join_utterances(["[TURN_SEP]"])) == ["", ""]


def test_a_query_that_is_no_dialogue_is_one_utterance() -> None:
    for name in set(TASKS) - {"dialogues"}:
        assert get_task(name).split_utterances(" a [TURN_SEP] b ") == [" a [TURN_SEP] b "]
