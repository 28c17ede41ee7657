# cause: dd reads 16 KiB at a time without the page cache: one read of the disk at a time.
# expect: queue-depth
# busy: queue-depth, other-cpu
prepare() { filled data 1g; }
program() { exec dd if=data of=/dev/null bs=16k iflag=direct status=none; }
