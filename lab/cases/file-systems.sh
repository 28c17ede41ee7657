# Files on ext4, xfs and btrfs are laid out, written and read, direct and buffered; the record names the file system.
# modules: ext4 xfs btrfs
# when: all
disk=$(disk 2)
for fs in ext4 xfs btrfs; do
    case $fs in ext4) force=-F ;; *) force=-f ;; esac
    mkfs.$fs -q $force "$disk"
    mkdir -p /mnt/$fs
    mount -t $fs "$disk" /mnt/$fs
    for direct in true false; do
        set -- --filename=/mnt/$fs/file --bs=16k --size=2m --iodepth=8 --output-format=json
        [ $direct = false ] || set -- "$@" --direct=1
        fathom run --name=write "$@" --rw=write --end_fsync=1 --buffer_pattern=0x5a --record=$fs-write-$direct >out.json
        is $fs-write-$direct/record.json '[.jobs[0].error, (.jobs[0].dirs.write.counts | .ios, .bytes, .errors),
            .disks[0].sectors.write >= 4096] | tojson' '[null,128,2097152,0,true]'
        check "$fs: direct=$direct: the file holds it" [ "$(tr -d Z </mnt/$fs/file | wc -c)" = 0 ]
        # Both reads reach the disk, as nothing is cached.
        echo 3 >/proc/sys/vm/drop_caches
        fathom run --name=read "$@" --rw=randread --record=$fs-read-$direct >out.json
        is $fs-read-$direct/record.json '[.jobs[0].error, (.jobs[0].dirs.read.counts | .ios, .bytes, .errors),
            .jobs[0].granted.direct, .disks[0].sectors.read >= 4000,
            (.facts.targets[0] | .kind, .file_system, .size_bytes, .device.name)] | tojson' \
            "[null,128,2097152,0,$direct,true,\"file\",\"$fs\",2097152,\"${disk#/dev/}\"]"
    done
    umount /mnt/$fs
done
keep ext4-* xfs-* btrfs-*
