"""How many trials run at once on this machine: as many as its cores and GPUs hold without sharing a core."""

from study.config import Study
from trainables.errors import UserError
from trainables.processes import cores


def places(study: Study) -> int:
    """Trials at once, at least one.

    Raises:
        UserError: more trials are asked for than the cores hold: threads that wait for each other's core are many times
            slower than trials that wait for their turn.
    """
    threads, share, wanted = study.training.threads, study.resources.gpu, study.resources.concurrent
    room = max(1, cores() // threads)
    if wanted is not None and wanted > room:
        where = f"{cores()} cores of this machine with training.threads = {threads}"
        raise UserError("resources.concurrent", wanted, f"at most {room}, what the {where} hold")
    if share:
        room = max(1, min(room, int(_gpus() / share)))
    return wanted or room


def _gpus() -> int:
    import torch

    return torch.cuda.device_count()
