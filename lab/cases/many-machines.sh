# Ranks on three machines with two kernels read and write shared storage, and keep their results when one machine is lost.
# machine: nvme=1 disks=virtio disk=48
# kernels: 7
# peers: 7 6.1
# modules: virtio_blk ext4 nvmet_tcp nvme_tcp
# when: all
# limit: 600
export HOME=/root
runs=$HOME/.local/state/fathom/runs
nodes="node0 node1 node2"

# on NODE COMMAND…: runs it there; what it prints.
on() { ssh "$@"; }

# on_all TEXT: runs this on each.
on_all() { for node in $nodes; do on "$node" "$1" </dev/null; done; }

# ranks ARGUMENT…: fathom on each node.
ranks() {
    mpiexec.hydra -launcher ssh -launcher-exec /lab/bin/ssh -hosts node0,node1,node2 -n 3 -wdir /root fathom "$@" </dev/null
}

# Disk 0 is exported by NVMe over TCP, and is /dev/nvme0n1 on all.
nvmet=/sys/kernel/config/nvmet
mkdir -p $nvmet/subsystems/lab/namespaces/1 $nvmet/ports/1
echo 1 >$nvmet/subsystems/lab/attr_allow_any_host
disk 0 >$nvmet/subsystems/lab/namespaces/1/device_path
echo 1 >$nvmet/subsystems/lab/namespaces/1/enable
for set in adrfam=ipv4 trtype=tcp traddr=10.0.0.1 trsvcid=4420; do echo "${set#*=}" >"$nvmet/ports/1/addr_${set%%=*}"; done
ln -s $nvmet/subsystems/lab $nvmet/ports/1/subsystems/lab
on_all 'modprobe nvme_tcp; modprobe ext4; echo transport=tcp,traddr=10.0.0.1,trsvcid=4420,nqn=lab >/dev/nvme-fabrics'
for node in $nodes; do
    check "$node has the disk" [ "$(on "$node" 'for try in $(seq 100); do [ -b /dev/nvme0n1 ] && break; usleep 50000; done; cat /sys/block/nvme0n1/size')" = 98304 ]
done
on_all 'hostname; uname -r; cat /sys/block/nvme0n1/wwid'

# The machines are compared.
expect 0 ranks doctor --json
is out '.hosts | length' 3
check "the kernels differ" grep -q "$(on node2 'uname -r')" out

# None writes where another does, unless that is meant. Each writes its part, and reads it back.
before=$(disk_sum 0)
write="run --name=w --rw=write --bs=64k --direct=1 --verify=crc32c --filename=/dev/nvme0n1 --erase=/dev/nvme0n1"
expect 1 ranks $write
says err "3 ranks, the first two on node0 and node1, would write over each other in device $(cat /sys/block/nvme0n1/wwid)"
check "the disk has not changed" [ "$(disk_sum 0)" = "$before" ]
expect 0 ranks $write --share=split --output-format=json
is out '[.jobs[].write.io_bytes] | add' 50331648
check "the disk has changed" [ "$(disk_sum 0)" != "$before" ]

# All read one file of a shared file system.
mkfs.ext4 -q -F /dev/nvme0n1
mkdir -p /mnt/made
mount -t ext4 /dev/nvme0n1 /mnt/made
dd if=/dev/urandom of=/mnt/made/data bs=1M count=16
umount /mnt/made
on_all 'mkdir -p /mnt/shared; mount -t ext4 -o ro,noload /dev/nvme0n1 /mnt/shared'
expect 0 ranks run --name=r --rw=randread --bs=4k --direct=1 --number_ios=64 --time_based=0 --filename=/mnt/shared/data
cat out
says out "3 started within"
says out "$(on node2 'uname -r') on node2"
expect 0 ranks run --name=r --rw=randread --bs=4k --direct=1 --number_ios=64 --time_based=0 --output-format=json --filename=/mnt/shared/data
is out '[.jobs[].read.total_ios] | add' 192

# A search measures from all.
expect 0 ranks limit -t 10 --bs=4k --sampling=off --format=json /mnt/shared/data
is out '[.ranks[].hostname] | join(" ")' "$nodes"

# One machine is gone from one moment to the next.
rm -rf "$runs"
on node1 "rm -rf $runs"
ranks run --name=r --rw=randread --bs=4k --direct=1 --time_based --runtime=300 --eta=never --filename=/mnt/shared/data >out 2>err &
launcher=$!
for try in $(seq 100); do [ -n "$(ls "$runs" 2>/dev/null)" ] && break; usleep 100000; done
working "$runs/$(ls "$runs")" 3
on node2 'echo o >/proc/sysrq-trigger' &
for try in $(seq 600); do grep -q 'read' out && break; usleep 100000; done
cat out err
says err "no answer from node2 (rank 2)"
says err "node0 (rank 0 of 3) has its own result only"
says out "the loss of node2 (rank 2)"
on node1 "fathom show" >other
says other "the loss of "
# Hydra itself waits for the machine.
kill -9 $launcher
