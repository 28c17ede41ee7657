# cause: Near miss of run-drop-device: after a second, the page cache serves the loop device again.
# expect: queue-depth, device, stacked-device, own-cpu
# runs: fathom
. "${1%/*}/run-drop-device.sh"
later="sleep 1; losetup --direct-io=off"
