#!/bin/sh
# Two machines: run the same command on both. HOST is the name of one of them, and PORT is open there.
# Both need the files of the graph. Only the machine of rank 0 writes the run folder; if machines may be replaced, put
# it where both can read it.
#
#   HOST=node1 RANKS=4 sh examples/distributed/two_machines.sh cora --method epagcl --out runs/cora
set -eu
export OMP_NUM_THREADS="${OMP_NUM_THREADS:-1}"
export TORCH_DISABLE_SHARE_RDZV_TCP_STORE=1  # a new store at each start, since each machine counts its own restarts
exec torchrun --nnodes 2 --nproc-per-node "${RANKS:-gpu}" --max-restarts 3 \
    --rdzv-backend c10d --rdzv-endpoint "$HOST:${PORT:-29500}" --rdzv-id "${JOB:-epagcl}" \
    -m epagcl train "$@"
