# cause: dd writes 4 KiB at a time, each on stable storage (O_DSYNC).
# expect: flush
# busy: flush, other-cpu
program() { for_s 4 dd if=/dev/zero of=out bs=4k oflag=dsync count=1000000 status=none; }
