# cause: Near miss of run-cache-cliff: a file of 48 MiB fits into the same memory.
# expect: in-memory, own-cpu
# runs: fathom
. "${1%/*}/run-cache-cliff.sh"
size=48m
