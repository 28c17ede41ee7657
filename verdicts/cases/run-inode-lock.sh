# cause: Eight jobs write through the page cache to one file, whose lock they share.
# expect: kernel-lock
# runs: fathom
prepare() { filled data 256m; }
program() { run --overwrite=data --rw=randwrite --ioengine=psync --numjobs=8 --direct=0 --bs=256k; }
