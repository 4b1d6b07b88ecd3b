#!/bin/sh
# One machine: one rank per GPU, or RANKS ranks on a CPU. If a rank dies, all are started again, up to three times,
# and the run goes on from its last checkpoint.
#
#   RANKS=2 sh examples/distributed/one_machine.sh cora --method epagcl --out runs/cora
set -eu
export OMP_NUM_THREADS="${OMP_NUM_THREADS:-1}"
exec torchrun --standalone --nproc-per-node "${RANKS:-gpu}" --max-restarts 3 -m epagcl train "$@"
