# cause: A run of a tenth of a second.
# expect: too-short
# mentions: too short
# runs: fathom
prepare() { filled data 64m; }
program() { run --ioengine=psync --direct=1 --runtime=100ms; }
