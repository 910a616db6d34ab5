"""Scores chunks as tasks of a Ray cluster, to which this process is connected.

Models and chunks travel through Ray's object store, so the nodes need not see the files of this machine.
"""

import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import ray
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from trainables.models.precision import Precision
from trainables.models.pretrained import list_encoder_files
from trainables.reranking.chunk_scorer import ChunkScorer, Scores
from trainables.reranking.local_workers import NumberedChunk, NumberedScores
from trainables.specs.environment import detect_environment, is_bf16_faster
from trainables.specs.run_spec import Environment
from trainables.text.tokens import TokenizedTexts
from trainables.utils.errors import MachineError, UserError

ModelFiles = Mapping[str, npt.NDArray[np.uint8]]
"""Path of a file in a model's folder -> its bytes."""

_PROBE_TIMEOUT_S = 300.0
"""Seconds that a node has to answer. Its first task imports torch."""
_QUEUED_PER_SLOT = 2
"""Tasks for each that runs, so that none waits for this process."""

_scorers = dict[str, ChunkScorer]()
"""Scorer of a worker process by the key of its settings, at most one."""


class NodeKind(NamedTuple):
    """Environment of a node, and whether bf16 is faster there than fp32."""

    environment: Environment
    is_bf16_faster: bool


class ClusterWorkers(NamedTuple):
    """Tasks of the cluster.

    Attributes:
        models: folders of the models on this machine.
        threads: cores of each task.
        key: identifies the job; a process that knows it has its models in memory.
    """

    models: Sequence[Path]
    precision: Precision
    threads: int
    key: str

    def score(self, chunks: Iterator[NumberedChunk]) -> Iterator[NumberedScores]:
        """Yield the scores of the chunks, each with its number, as they become ready.

        Few chunks are in memory at once. A task that loses its node runs again on another node.

        Raises:
            MachineError: if the cluster loses a task for good.
        """
        files = [ray.put(_read_files(path)) for path in self.models]
        task = _score.options(num_cpus=self.threads)
        limit = _QUEUED_PER_SLOT * _count_slots(self.threads)
        pending = dict[Any, int]()
        try:
            for number, chunk in chunks:
                pending[task.remote(files, self.precision, self.threads, self.key, chunk)] = number
                if len(pending) >= limit:
                    yield from _take_finished(pending)
            while pending:
                yield from _take_finished(pending)
        except ray.exceptions.RayTaskError as error:
            raise error.cause from error
        except ray.exceptions.RayError as error:
            raise MachineError(f"the cluster lost a task ({type(error).__name__})") from error


def probe_nodes(threads: int) -> NodeKind:
    """Return the environment that all nodes with enough cores have in common.

    Raises:
        UserError: if no node has enough cores, if one does not answer, or if their environments differ, because the
            same pair would have different scores on them.
    """
    nodes = _find_nodes(threads)
    if not nodes:
        raise UserError("--threads", threads, "at most the cores of a node of the cluster")
    answers = [
        _probe.options(
            num_cpus=0, scheduling_strategy=NodeAffinitySchedulingStrategy(node["NodeID"], soft=False)
        ).remote()
        for node in nodes
    ]
    done, pending = ray.wait(answers, num_returns=len(answers), timeout=_PROBE_TIMEOUT_S)
    if pending:
        raise UserError("--address", f"{len(pending)} of {len(nodes)} nodes do not answer", "nodes that are available")
    kinds = set(ray.get(done))
    if len(kinds) > 1:
        found = "; ".join(sorted(str(kind.environment.model_dump(mode="json")) for kind in kinds))
        raise UserError("--address", f"nodes of {len(kinds)} kinds: {found}", "a cluster with nodes of one kind")
    kind: NodeKind = kinds.pop()
    return kind


def _find_nodes(threads: int) -> list[dict[str, Any]]:
    nodes: list[dict[str, Any]] = ray.nodes()  # type: ignore[no-untyped-call]
    return [node for node in nodes if node["Alive"] and node["Resources"].get("CPU", 0) >= threads]


def _count_slots(threads: int) -> int:
    return max(1, sum(int(node["Resources"]["CPU"] // threads) for node in _find_nodes(threads)))


def _take_finished(pending: dict[Any, int]) -> Iterator[NumberedScores]:
    for answer in ray.wait(list(pending))[0]:
        yield pending.pop(answer), ray.get(answer)


def _read_files(path: Path) -> ModelFiles:
    return {name: np.fromfile(path / name, np.uint8) for name in list_encoder_files(path)}


@ray.remote
def _probe() -> NodeKind:
    return NodeKind(detect_environment(), is_bf16_faster())


@ray.remote
def _score(files: list[Any], precision: Precision, threads: int, key: str, chunk: TokenizedTexts) -> Scores:
    if key not in _scorers:
        with tempfile.TemporaryDirectory() as folder:
            paths = [_write_files(Path(folder, str(number)), ray.get(each)) for number, each in enumerate(files)]
            _scorers.clear()
            _scorers[key] = ChunkScorer(paths, precision, threads)
    return _scorers[key].score(chunk)


def _write_files(path: Path, files: ModelFiles) -> Path:
    for name, content in files.items():
        (path / name).parent.mkdir(parents=True, exist_ok=True)
        content.tofile(path / name)
    return path
