"""`python -m wandb_server FOLDER PORT` serves what is in the folder, until it is killed."""

import sys
from pathlib import Path

from aiohttp import web

from wandb_server.database import Database
from wandb_server.web import application

if __name__ == "__main__":
    folder, port = Path(sys.argv[1]), int(sys.argv[2])
    database = Database(folder / "server.sqlite")
    web.run_app(application(database, f"http://127.0.0.1:{port}"), host="127.0.0.1", port=port, print=None)
