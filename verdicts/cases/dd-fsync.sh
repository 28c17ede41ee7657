# cause: dd copies 1 GiB into the page cache, and flushes it at the end, which takes less.
# expect: own-cpu, writeback
# busy: own-cpu, other-cpu, writeback
# vague: flush
program() { exec dd if=/dev/zero of=out bs=1M count=1024 conv=fsync status=none; }
