# A file system that other programs fill during a run ends it with an error and the results up to then.
# modules: ext4
# when: all
mkdir -p /mnt/ext4 /mnt/tmpfs
mkfs.ext4 -q "$(disk 0)"
mount -t ext4 "$(disk 0)" /mnt/ext4
mount -t tmpfs -o size=40m tmpfs /mnt/tmpfs
for fs in ext4 tmpfs; do
    fathom run --name=full --filename=/mnt/$fs/file --rw=write --bs=64k --size=30m --fallocate=none --rate=5m \
        --output-format=json --record=$fs >out 2>err &
    working $fs
    dd if=/dev/zero of=/mnt/$fs/others bs=64k 2>/dev/null || true
    status=0
    wait $! || status=$?
    check "the run ends with 1 ($status)" [ $status = 1 ]
    says err "/mnt/$fs/file failed: No space left on device"
    says err "the file system or device is full"
    is out '.jobs[0].error' 28
    written=$(value out '.jobs[0].write.io_bytes')
    check "what was written is counted ($written)" [ "$written" -gt 0 ]
    check "and not more" [ "$written" -le "$(stat -c %s /mnt/$fs/file)" ]
    is $fs/record.json '.jobs[0].dirs.write.counts.bytes' "$written"
    keep $fs
    # Filling it on request is no error.
    rm -f /mnt/$fs/others
    fathom run --name=fill --filename=/mnt/$fs/fill --rw=write --bs=64k --fill_device=1 --output-format=json >out 2>err
    is out '.jobs[0].error' 0
    written=$(value out '.jobs[0].write.io_bytes')
    check "it is full ($written)" [ "$(stat -f -c %a /mnt/$fs)" = 0 ]
    check "and what was written is counted" [ "$written" -gt 0 ]
    check "and not more" [ "$written" -le "$(stat -c %s /mnt/$fs/fill)" ]
    rm -f /mnt/$fs/fill
done
nothing_left
