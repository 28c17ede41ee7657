# cause: Reads of a cold mapped loop device, one page fault at a time, for which other threads do the I/O.
# expect: page-fault
# runs: fathom
prepare() { looped 1g; }
program() { run --filename="$(cat loop)" --ioengine=mmap; }
clean() { unlooped; }
