# cause: Near miss of run-drop-device: after a second, the page cache serves the loop device again.
# expect: queue-depth, device, stacked-device, own-cpu
# runs: fathom
prepare() {
    looped 512m
    losetup --direct-io=off "$(cat loop)"
    cat image >/dev/null
    starts sh -c "sleep 4; losetup --direct-io=on $(cat loop); sleep 1; exec losetup --direct-io=off $(cat loop)"
}
program() { run --filename="$(cat loop)" --ioengine=psync --direct=1 --bs=64k --runtime=14; }
clean() {
    ends
    unlooped
}
