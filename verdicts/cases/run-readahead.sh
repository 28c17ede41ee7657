# cause: Every fourth 4 KiB block of a cold file is read through the page cache, which reads the other three ahead.
# expect: readahead
# vague: device, queue-depth
# runs: fathom
prepare() { filled data 1800m; }
program() { run --rw=read:12k --ioengine=psync --direct=0 --time_based=0; }
