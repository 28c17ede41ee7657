# cause: The most of a sparse file in large blocks: the CPUs, which fill buffers with zeros.
# expect: cpus
# busy: cpus, other-cpu
# runs: fathom
prepare() { truncate -s 1g data; }
program() { fathom limit --bs=1m data; }
