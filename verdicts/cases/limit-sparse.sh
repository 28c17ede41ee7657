# cause: The most of a sparse file: the CPUs.
# expect: cpus
# busy: cpus, other-cpu
# runs: fathom
prepare() { truncate -s 1g data; }
program() { fathom limit data; }
