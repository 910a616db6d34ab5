# The project with the versions of its lock files, and Ray's tools for clusters.
#   docker build -t ranker-studies .                                        # torch with CUDA, for NVIDIA GPUs
#   docker build --build-arg PIP_EXTRA_INDEX_URL=URL -t ranker-studies .    # torch for processors, of PyTorch's index for them
#   docker run --shm-size=4g -v "$PWD:/work" ranker-studies ranker-study quick
FROM python:3.11-slim
ARG PIP_EXTRA_INDEX_URL

# KubeRay asks with wget whether a node answers.
# hadolint ignore=DL3008
RUN apt-get update && apt-get install -y --no-install-recommends wget && rm -rf /var/lib/apt/lists/* \
    && useradd --create-home --uid 1000 ranker && install -d -o ranker /work

WORKDIR /app
COPY requirements.lock requirements-test.lock ./
RUN pip install --no-cache-dir --only-binary=:all: -r requirements.lock -c requirements-test.lock "ray[default]"
COPY . .
RUN pip install --no-cache-dir --no-deps -e .

USER 1000
WORKDIR /work
CMD ["ranker-study", "--help"]
