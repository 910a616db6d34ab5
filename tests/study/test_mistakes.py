"""Every mistake of a user is one line that names the place, the key, the value and what was expected.

The mistakes and what is said of them are in mistakes.txt.
"""

import re
import shlex
from pathlib import Path

import pytest

from study.config.loader import load_study
from study.config.sources import list_shipped
from study.config.trial_params import parse_trial_params
from tests.study.command import call
from tests.study.driving import STUDY
from trainables.utils.errors import UserError


def read_mistakes(section: str) -> dict[str, str]:
    """Return what is given and what is said of it."""
    text = Path(__file__).with_name("mistakes.txt").read_text(encoding="utf-8")
    lines = text.partition(f"\n[{section}]\n")[2].partition("\n\n[")[0].splitlines()
    rows = dict(line.split(" -> ") for line in lines)
    assert len(rows) == len(lines)
    return {given: said.replace("{file}", __file__) for given, said in rows.items()}


def split(given: str) -> list[str]:
    """Return the words of what is given, as a shell splits them."""
    return shlex.split(given.replace("{file}", __file__).replace("{folder}", str(Path(__file__).parent)))


def check(message: str, said: str) -> None:
    """The message is one line that begins with what is said."""
    assert re.match(".*".join(map(re.escape, said.split("..."))), message), message
    assert message.count("\n") == 0
    assert "; expected " in message or "; see --help" in message


@pytest.mark.parametrize(("given", "said"), read_mistakes("study").items())
def test_in_the_settings_of_a_study(given, said, monkeypatch):
    monkeypatch.delenv("WANDB_MODE", raising=False)
    words = split(given)
    study = words.pop(0) if words[0] in list_shipped() else None
    with pytest.raises(UserError) as caught:
        load_study(study, words)
    check(str(caught.value).removeprefix("command line: "), said)


@pytest.mark.parametrize(("given", "said"), read_mistakes("sweep").items())
def test_in_a_swept_configuration(given, said):
    with pytest.raises(UserError) as caught:
        parse_trial_params(STUDY, dict(word.split("=") for word in split(given)))
    check(str(caught.value), said)


RUN = "q01 Q0 d0 1 2.0 t\nq02 Q0 d1 1 1.0 t\n"
FILES = {
    "broken.toml": "name = [",
    "pairs.tsv": "id\tqid1\tqid2\tquestion1\tquestion2\tis_duplicate\n1\t2\n",
    "qrels": "q01 0 d0 1\nq02 0 d1 1\n",
    "a.run": RUN,
    "b.run": RUN,
    "scores.csv": "system,seed,value\na,1,1\nb,1,2\na,2,1\nb,2,2\n",
    "one.csv": "system,seed,value\na,1,1\nb,1,2\n",
    "word.csv": "system,seed,value\na,1,high\nb,1,2\n",
    "large.csv": "system,seed,value\na,1,1e200\nb,1,2\na,2,1\nb,2,2\n",
    "small.csv": "system,seed,value\na,1,1e-9\nb,1,2e-9\na,2,0\nb,2,0\n",
}


@pytest.mark.parametrize(("given", "said"), (read_mistakes("command") | read_mistakes("analysis")).items())
def test_in_a_command_are_status_2_and_leave_nothing(given, said, tmp_path):
    for name, text in FILES.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    module, *words = split(given)
    result = call(module, tmp_path, *words)
    assert result.returncode == 2, result.stderr
    assert module == "study.run" or result.stdout == ""
    start, _, message = result.stderr.partition(": ")
    assert start == module
    check(message.removesuffix("\n"), said)
    assert not list(tmp_path.rglob("*.parquet"))
