# cause: The null engine: nothing but the load generator itself.
# expect: own-cpu
# runs: fathom
program() { run --ioengine=null --size=1g --iodepth=8; }
