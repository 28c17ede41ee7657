# cause: After some seconds, a loop device is no longer served by the page cache of its file, but by the disk.
# expect: drop
# vague: device, queue-depth
# runs: fathom
later=true
prepare() {
    looped 512m
    losetup --direct-io=off "$(cat loop)"
    cat image >/dev/null
    starts sh -c "sleep 4; losetup --direct-io=on $(cat loop); $later $(cat loop)"
}
program() { run --filename="$(cat loop)" --ioengine=psync --direct=1 --bs=1m --runtime=14; }
clean() {
    ends
    unlooped
}
