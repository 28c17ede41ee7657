# cause: cp copies a cold file of 1.5 GiB into memory: readahead keeps ahead of it, and it copies bytes.
# expect: own-cpu
# busy: own-cpu, other-cpu
# vague: in-memory
prepare() { filled data 1500m; }
program() { exec cp --reflink=never data /dev/shm/verdicts-copy; }
clean() { rm -f /dev/shm/verdicts-copy; }
