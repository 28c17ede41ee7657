# Files on ext4, xfs and btrfs are laid out, written and read, direct and buffered; the record names the file system.
# modules: ext4 xfs btrfs
# limit: 120
disk=$(disk 2)
for fs in ext4 xfs btrfs; do
    case $fs in ext4) force=-F ;; *) force=-f ;; esac
    mkfs.$fs -q $force "$disk"
    mkdir -p /mnt/$fs
    mount -t $fs "$disk" /mnt/$fs
    for direct in 1 0; do
        set -- --filename=/mnt/$fs/file --bs=16k --size=2m --direct=$direct --iodepth=8 --output-format=json
        fathom run --name=write "$@" --rw=write --end_fsync=1 --buffer_pattern=0x5a --record=$fs-write-$direct >out.json
        is $fs-write-$direct/record.json '.jobs[0].dirs.write.counts | "\(.ios) \(.bytes) \(.errors)"' '128 2097152 0'
        is $fs-write-$direct/record.json '.jobs[0].error' null
        is $fs-write-$direct/record.json '.disks[0].sectors.write >= 4096' true
        check "$fs: direct=$direct: the file holds it" [ "$(tr -d Z </mnt/$fs/file | wc -c)" = 0 ]
        echo 3 >/proc/sys/vm/drop_caches
        fathom run --name=read "$@" --rw=randread --record=$fs-read-$direct >out.json
        record=$fs-read-$direct/record.json
        is $record '.jobs[0].dirs.read.counts | "\(.ios) \(.bytes) \(.errors)"' '128 2097152 0'
        is $record '.facts.targets[0] | "\(.kind) \(.file_system) \(.size_bytes)"' "file $fs 2097152"
        is $record '.facts.targets[0].device.name' "${disk#/dev/}"
        is $record '.jobs[0].granted.direct' "$([ $direct = 1 ] && echo true || echo false)"
        # Both reach the disk, as the cache was empty.
        is $record '.disks[0].sectors.read >= 4000' true
    done
    umount /mnt/$fs
    keep $fs-*
done
