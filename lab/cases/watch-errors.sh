# I/O errors are counted per device, request-based and bio-based.
# when: all
# kernels: 7 6.1
# modules: dm_mod
bad_disk
set -- --name=bad --rw=read --bs=64k --size=16m --direct=1 --iodepth=8 --continue_on_error=all \
    --no-record --sampling=off --output-format=json

# counted DEVICE ARGUMENT…
counted() {
    device=$1
    shift
    expect 0 fathom blocks "$device" --json -- fathom run "$@" --filename="$device"
    is out '.jobs[0].total_err' 16
    grep '"devices"' err | tail -n 1 >seen
    is seen '.devices[0] | [.errors, .error_codes] | tojson' '[16,[[5,16]]]'
    # One more may be of opening the device.
    is seen '.devices[0] | [.queued, .completed] | all(. >= 256 and . <= 288)' true
}
counted /dev/mapper/labbad "$@"

# By now it has more I/Os than most disks, so it is among those traced.
expect 0 fathom watch --each-io --record watched -- fathom run "$@" --filename=/dev/mapper/labbad
says err "errors 16"
is watched/record.json .sampling.command.status 0

node=$(null_blk null badblocks=+8192-10239)
case $(uname -r) in
# This driver takes the list, but no request fails.
6.1.*) ;;
*) counted "$node" "$@" ;;
esac
