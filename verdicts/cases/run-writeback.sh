# cause: Buffered writes to a loop device whose writeback is throttled (wbt_lat_usec=1), in requests of 16 KiB.
# expect: writeback
# vague: device, flush, splits
# runs: fathom
prepare() {
    looped 512m
    queue scheduler none
    queue wbt_lat_usec 1
    queue max_sectors_kb 16
}
program() { run --filename="$(cat loop)" --erase="$(cat loop)@$(stat -c %s image)" --rw=write --bs=1m --ioengine=psync --size=512m; }
clean() { unlooped; }
