#!/usr/bin/env bash
# A study on the nodes of a Slurm allocation, from the repository's folder on a disk that all nodes share:
#   sbatch --nodes=2 --cpus-per-task=8 --time=08:00:00 study/cluster/slurm.sh quick search.n_configurations.T-WSLS=8
# After a time limit, the same command goes on from where the study was. With IMAGE=ranker-studies.sif before sbatch, the
# nodes need no environment; apptainer build ranker-studies.sif docker-daemon://ranker-studies:latest converts the image
# of the Dockerfile.
#SBATCH --job-name=ranker-study
#SBATCH --ntasks-per-node=1
set -euo pipefail
cd "${SLURM_SUBMIT_DIR:-.}"
[ -d .venv ] && PATH="$PWD/.venv/bin:$PATH"
inside=(${IMAGE:+apptainer exec --nv "$IMAGE"})

# Only who has this job's token gets in; srun passes both on.
export RAY_AUTH_MODE=token RAY_AUTH_TOKEN
RAY_AUTH_TOKEN=$(od -An -N32 -tx1 /dev/urandom | tr -d ' \n')

mapfile -t nodes < <(scontrol show hostnames "$SLURM_JOB_NODELIST")
on() { exec srun --overlap --nodes=1 --ntasks=1 --nodelist="$1" "${inside[@]}" "${@:2}"; } # in a subshell of its own
address=$(on "${nodes[0]}" python -c 'import ray; print(ray.util.get_node_ip_address())')
port=$((20000 + SLURM_JOB_ID % 20000)) # several jobs may share a node

started=()
trap 'kill "${started[@]}" 2> /dev/null || true; wait' EXIT
# A private folder on each node: the default one may be another user's, and Ray lets everyone write to those it makes.
node() {
  on "$1" bash -c 'exec ray start --block --num-cpus="$0" --temp-dir="$(mktemp -d /tmp/ray-XXXXXX)/r" "$@"' \
    "${SLURM_CPUS_PER_TASK:-1}" "${@:2}" > /dev/null &
  started+=($!)
}
node "${nodes[0]}" --head --port="$port" --include-dashboard=false
for _ in $(seq 60); do
  (on "${nodes[0]}" ray status --address "$address:$port") > /dev/null 2>&1 && break
  sleep 2
done
for name in "${nodes[@]:1}"; do node "$name" --address="$address:$port"; done

# Nodes that are still on their way are used as soon as they join.
(on "${nodes[0]}" python -m study.run "$@" --address "$address:$port")
