# Files need no root; a disk without permission is refused by name, and nothing is left behind.
mkdir own
chown 65534:65534 own
cd own
expect 0 as_nobody fathom run --name=job --filename=file --size=1m --rw=randrw --bs=4k --iodepth=8 \
    --output-format=json --record=run
is out '.jobs[0] | .read.total_ios + .write.total_ios' 256
is run/record.json .outcome finished

disk=$(disk 0)
before=$(disk_sum 0)
chmod 600 "$disk" "$(passthrough 0)"
for target in "$disk" "$(passthrough 0)"; do
    for rw in read write; do
        set -- --name=job --filename="$target" --rw=$rw --bs=4k --number_ios=1 --output-format=json --record=refused
        case $target in /dev/ng*) set -- "$@" --ioengine=io_uring_cmd --cmd_type=nvme ;; esac
        expect 1 as_nobody fathom run "$@" --erase="$target"
        says err "$target"
        says err "run as a user with permission"
        is out type object
        check "no record of what was not run" [ ! -e refused ]
    done
done
expect 1 as_nobody fathom limit --quick --no-record "$disk"
says err "$disk"
check "the disk is as it was" [ "$(disk_sum 0)" = "$before" ]
nothing_left
