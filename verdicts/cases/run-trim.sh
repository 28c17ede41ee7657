# cause: Trims of a loop device, one at a time: the kernel frees the blocks of its file.
# expect: discards
# vague: queue-depth, device
# runs: fathom
prepare() { looped 512m; }
program() { run --filename="$(cat loop)" --erase="$(cat loop)@$(stat -c %s image)" --rw=randtrim --bs=64k --ioengine=psync --size=512m; }
clean() { unlooped; }
