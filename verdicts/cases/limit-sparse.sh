# cause: The most of a sparse file: the CPUs.
# expect: own-cpu, in-memory, other-cpu
# runs: fathom
prepare() { truncate -s 1g data; }
program() { fathom limit -t 15 data; }
