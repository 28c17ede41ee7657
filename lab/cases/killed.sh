# SIGKILL during a run leaves a record up to its last interval; scratch files vanish or `fathom clean` finds them.
# kernels: 6.1
# modules: ext4 overlay
fathom run --name=job --filename="$(disk 1)" --rw=randread --bs=4k --direct=1 --iodepth=4 --time_based --runtime=30 \
    --output-format=json --record=run >out 2>err &
working run
sleep 2
kill -9 $!
wait $! || true
says run/record.json "it was still running when fathom was killed"
is run/record.json '.plan.jobs | length' 1
jq -s . run/samples.ndjson >samples.json
is samples.json 'length >= 2 and last.jobs[0].dirs.read.ios > 0 and last.elapsed_ns > 1e9' true
keep run

mkdir -p /mnt/ext4 /mnt/overlay
mkfs.ext4 -q "$(disk 2)"
mount -t ext4 "$(disk 2)" /mnt/ext4
mkdir /mnt/ext4/upper /mnt/ext4/work /mnt/ext4/lower
cd /mnt/ext4
mount -t overlay -o lowerdir=lower,upperdir=upper,workdir=work overlay /mnt/overlay
cd -
# Without a name on ext4, with one on overlayfs, which before Linux 6.3 cannot do otherwise.
for fs in ext4 overlay; do
    free=$(stat -f -c %f /mnt/$fs)
    fathom limit --quick --no-record --scratch-dir=/mnt/$fs >out 2>err &
    for try in $(seq 100); do
        [ "$(stat -f -c %f /mnt/$fs)" -ge $((free - 16)) ] || break
        usleep 100000
    done
    kill -0 $!
    check "there is a scratch file" [ "$(stat -f -c %f /mnt/$fs)" -lt $((free - 16)) ]
    expect 0 fathom clean /mnt/$fs
    says out "no files left by killed runs"
    kill -9 $!
    wait $! || true
    [ $fs = ext4 ] || break
    expect 0 fathom clean /mnt/$fs
    says out "no files left by killed runs"
    check "its space is free again" [ "$(stat -f -c %f /mnt/$fs)" -ge $((free - 16)) ]
done
expect 0 fathom clean /mnt/overlay
says out "/mnt/overlay/.fathom-scratch-"
expect 0 fathom clean --remove /mnt/overlay
says out "scratch file, removed"
check "nothing is left there" [ -z "$(ls -A /mnt/overlay)" ]

# A file that is being laid out has no name on ext4, and a temporary one on overlayfs.
for fs in ext4 overlay; do
    free=$(stat -f -c %f /mnt/$fs)
    fathom run --name=new --directory=/mnt/$fs --filename=new --size=300m --rw=read --bs=4k --no-record >out 2>err &
    for try in $(seq 2000); do
        [ "$(stat -f -c %f /mnt/$fs)" -lt $((free - 16)) ] && break
        usleep 1000
    done
    check "it is not laid out yet" kill -9 $!
    wait $! || true
    check "it has no name" [ ! -e /mnt/$fs/new ]
    expect 0 fathom clean /mnt/$fs
    [ $fs = overlay ] || says out "no files left by killed runs"
done
says out "/mnt/overlay/.fathom-scratch-"
expect 0 fathom clean --remove /mnt/overlay
says out "scratch file, removed"
nothing_left
