# cause: Buffered random reads of a cold file, one at a time.
# expect: queue-depth
# runs: fathom
prepare() { filled data 1g; }
program() { run --ioengine=psync --direct=0; }
