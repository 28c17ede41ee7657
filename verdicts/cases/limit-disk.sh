# cause: The most that the disk does.
# expect: device
# vague: queue-depth
# runs: fathom
prepare() { filled data 1g; }
program() { fathom limit --bs=1m data; }
