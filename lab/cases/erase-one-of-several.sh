# A run with one refused target writes to none of its targets and leaves no file behind.
good=$(disk 0) bad=$(disk 1)
mkfs.ext4 -q -O ^has_journal -E lazy_itable_init=0 "$bad"
mount -t ext4 "$bad" /mnt
truncate -s 1M theirs
sync
watched="0 1" before=$(sums)
permit="--erase=$good@LAB0 --erase=$bad@LAB1"

# In every order, within a job and over several.
refused write "$good:$bad" "$bad is in use" $permit
refused write "$bad:$good" "$bad is in use" $permit
refused randrw "$(passthrough 0):$(passthrough 1)" "is in use" $permit --ioengine=io_uring_cmd --cmd_type=nvme
for rw in write trim; do
    expect 1 fathom run $permit --name=first --rw=write --bs=64k --filename="$good" \
        --name=later --stonewall --rw=$rw --filename="$bad"
    says err "$bad is in use"
    check "no disk has changed" unchanged
done
refused write "$good:theirs" "add --overwrite=theirs" $permit
refused write "theirs:$good" "add --erase=$good" --overwrite=theirs
check "the file is as it was" [ "$(tr -d '\0' <theirs | wc -c)" = 0 ]
umount /mnt
before=$(sums)
refused write "$good:$bad" "ext4" --erase="$good" --erase="$bad"
refused write "$good:$bad" "add --erase=$bad" --erase="$good"

for path in new other/new; do
    mkdir -p other
    refused write "$path:$bad" "ext4" --erase="$bad" --size=2m
    refused write "$bad:$path" "ext4" --erase="$bad" --size=2m
    check "no file remains" [ ! -e "$path" ]
done
fathom run --name=both --rw=write --bs=64k --size=2m --filename="$good:$bad" $permit
check "both were written once both were permitted" [ "$(sums)" != "$before" ]
