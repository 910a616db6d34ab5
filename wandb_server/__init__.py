"""A loopback server of Weights & Biases, with which the real client, `wandb sync`, sweeps and agents work.

    with Server(folder) as server:
        subprocess.run([...], env=os.environ | server.environment())
        assert server.runs("project")["abc"].summary["loss"] < 1

It holds what it is given, fails when it is told to, and survives SIGKILL with all that it acknowledged. What it knows
of the protocol is in schema/*.graphql (questions), filestream.py (rows) and files.py (contents).
"""

from wandb_server.contents import ServerRun, ServerSweep, ServerView
from wandb_server.handle import Server

__all__ = ["Server", "ServerRun", "ServerSweep", "ServerView"]
