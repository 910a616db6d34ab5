"""The live view: below the lines of the log on a terminal, and nothing anywhere else."""

import io
import os
import pty
import re
import select
import subprocess
import sys
import termios
import time

import pytest
from ray import cloudpickle

from study.utils.live_view import LiveView

SHOWN = """
import time
from study.utils.console import print_line
from study.utils.live_view import LiveView

with LiveView() as view:
    view.start("LS seed 1")
    view.set_share("LS seed 1", 0.4)
    view.set_score("best dev MAP", "LS", "0.5000")
    for done in range(3):
        view.set_progress("trials", done, 3, "about 2 min left")
        print_line(f"line {done}")
        time.sleep(0.4)
    view.set_progress("trials", 3, 3)
    with view.show_activity("report"):
        time.sleep(0.4)
    view.end("LS seed 1")
    view.start("name with \\x1b[31m in it")
    time.sleep(0.4)
print_line("end")
"""
CONTROLS = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


def on_a_terminal(program: str, width: int = 100) -> str:
    """Runs a program in a terminal and returns what it writes."""
    ours, its = pty.openpty()
    termios.tcsetwinsize(its, (40, width))
    process = subprocess.Popen(
        [sys.executable, "-c", program], stdout=its, stderr=its, env=os.environ | {"TERM": "xterm"}
    )
    os.close(its)
    parts, end = [], time.monotonic() + 60
    while time.monotonic() < end and select.select([ours], [], [], 30)[0]:
        try:
            parts.append(os.read(ours, 65536))
        except OSError:
            break
    os.close(ours)
    assert process.wait(30) == 0
    return b"".join(parts).decode()


def test_on_a_terminal_bars_stand_below_the_lines_and_are_gone_at_the_end():
    """Names cannot control the terminal, and the cursor stays visible."""
    output = on_a_terminal(SHOWN)
    shown = ("running", "LS seed 1", "40%", "best dev MAP", "LS 0.5000", "about 2 min left", "1/3", "report")
    assert [text for text in (*shown, "\\x1b[31m") if text not in output] == []
    lines = [line.strip() for line in CONTROLS.sub("", output).replace("\r", "\n").split("\n")]
    assert [line for line in lines if line.startswith(("line ", "end"))] == ["line 0", "line 1", "line 2", "end"]
    after = output[output.rindex("end") :]
    assert "trials" not in after
    assert "running" not in after
    assert output.rindex("\x1b[?25h") > output.find("\x1b[?25l")


def test_a_line_that_is_wider_than_the_terminal_stays_one_line():
    """The terminal wraps it where it is shown; a table that is copied from there is whole."""
    wide = "a column   " * 12
    program = SHOWN.replace("line {done}", f"{wide}{{done}}")
    lines = CONTROLS.sub("", on_a_terminal(program, width=60)).replace("\r", "\n").split("\n")
    assert [line for line in lines if line.startswith("a column")] == [f"{wide}{done}" for done in range(3)]


def test_elsewhere_nothing_is_shown(capsys):
    exec(SHOWN, {})
    assert capsys.readouterr().out.splitlines() == ["line 0", "line 1", "line 2", "end"]


def test_it_can_be_copied_with_what_refers_to_it():
    with LiveView(io.StringIO()) as view:
        view.set_progress("trials", 1, 2)
        assert isinstance(cloudpickle.loads(cloudpickle.dumps(view)), LiveView)


def test_a_done_activity_disappears_and_an_unknown_one_may_end():
    with LiveView(io.StringIO()) as view:
        view.set_progress("trials", 1, 2)
        assert [task.description for task in view._bars.tasks] == ["trials"]
        view.set_progress("trials", 2, 2)
        view.set_progress("nothing to do", 0, 0)
        assert view._bars.tasks == []
        view.end("never started")


def test_a_notebook_shows_one_output_that_changes_and_every_line():
    nbclient, nbformat = pytest.importorskip("nbclient"), pytest.importorskip("nbformat")
    spied = """
from IPython import display
changes, update = [], display.DisplayHandle.update
display.DisplayHandle.update = lambda self, shown: (changes.append(shown.data), update(self, shown))
"""
    cell = nbformat.v4.new_code_cell(f"{spied}{SHOWN}print(any('about 2 min left' in each for each in changes))")
    nbclient.NotebookClient(nbformat.v4.new_notebook(cells=[cell]), timeout=60, kernel_name="python3").execute()
    (view,) = (output for output in cell.outputs if output.output_type != "stream")
    lines = "".join(output.text for output in cell.outputs if output.output_type == "stream").split("\n")
    assert lines == ["line 0", "line 1", "line 2", "end", "True", ""]
    assert view.data["text/html"] == ""
