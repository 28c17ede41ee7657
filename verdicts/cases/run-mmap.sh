# cause: Reads of a cold mapped file, one page fault at a time.
# expect: page-fault
# runs: fathom
prepare() { filled data 1g; }
program() { run --ioengine=mmap; }
