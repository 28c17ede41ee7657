# cause: A read every 2 ms, between which the job waits.
# expect: timer
# runs: fathom
prepare() { filled data 512m; }
program() { run --ioengine=psync --direct=1 --thinktime=2000; }
