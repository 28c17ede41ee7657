# cause: cp copies a file that is in memory, in memory: it copies bytes.
# expect: own-cpu, in-memory
# busy: own-cpu, in-memory, other-cpu
prepare() { filled data 300m; cat data >/dev/null; }
program() { for i in $(seq 12); do cp --reflink=never data /dev/shm/verdicts-copy; done; }
clean() { rm -f /dev/shm/verdicts-copy; }
