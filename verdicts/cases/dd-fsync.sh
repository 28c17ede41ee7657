# cause: dd copies 2 GiB into the page cache, and flushes it at the end: whichever takes longer on this disk.
# expect: own-cpu, flush, writeback
# busy: own-cpu, flush, other-cpu, writeback
program() { exec dd if=/dev/zero of=out bs=1M count=2048 conv=fsync status=none; }
