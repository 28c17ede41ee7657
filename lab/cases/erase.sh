# A disk is written only when --erase names it, and nothing is made under /dev in its place.
disk=$(disk 0) other=$(disk 1) ng=$(passthrough 0)
watched="0 1" before=$(sums)
pass="--ioengine=io_uring_cmd --cmd_type=nvme"
ln -s "$disk" link

for rw in write randwrite randrw trim; do
    refused $rw "$disk" "add --erase=$disk"
done
refused write "$ng" "--erase=$ng" $pass
refused write "$disk" "--erase=$other does not name it" --erase="$other"
refused write "$disk" "--erase=$disk@LAB0" --erase="$disk@LAB1"
refused write "$disk" "add --erase=$disk" --erase="${disk%n1}"
refused write "$disk" "add --erase=$disk" --overwrite="$disk"
# A link from elsewhere does not say what it leads to.
refused write link "--erase=$disk" --erase=link --erase="$PWD/link"
refused write "$ng" "--erase=$ng@LAB0" --erase="$disk@LAB1" $pass
printf '[a]\nrw=write\nfilename=%s\nerase=%s\n' "$disk" "$disk" >job.fio
expect 1 fathom run job.fio
says err "command line"
expect 1 fathom run --name=a --rw=write --filename="$disk" --erase="$disk" --readonly
says err "--readonly is set"
check "a job file permits nothing, and --readonly forbids all" unchanged

# What does not exist or is no disk.
for path in /dev/nvme9n1 "${disk}p1" /dev/shm/new /dev/new/disk; do
    refused write "$path" "/dev" --erase="$path" --size=1m
    check "no file was made" [ ! -e "$path" ]
done
ln -s /dev up
refused write up/nvme9n1 "under /dev" --size=1m
ln -s /dev/nvme9n1 nowhere
refused write nowhere "dangling symbolic link" --size=1m
refused write "${disk%n1}" "neither a file nor a block device" --erase="${disk%n1}"
check "nothing is there" [ ! -e /dev/nvme9n1 ]

# Read-only disks, also by the name that bypasses the block layer.
blockdev --setro "$disk"
refused write "$disk" "read-only" --erase="$disk@LAB0"
refused trim "$disk" "read-only" --erase="$disk@LAB0"
refused write "$ng" "read-only" --erase="$disk@LAB0" $pass
blockdev --setrw "$disk"

# By its own name, or an alias of that, it is written.
fathom run --name=link --rw=write --bs=64k --size=64k --filename=link --erase="$disk"
fathom run --name=serial --rw=write --bs=64k --size=64k --filename="$disk" --erase="$disk@LAB0"
fathom run --name=ng --rw=write --bs=64k --size=64k --filename="$ng" --erase="$disk" $pass
check "the disk was written" [ "$(sums)" != "$before" ]
