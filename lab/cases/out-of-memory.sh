# In 64 MiB of memory a run that needs more is refused; the record of one killed by the OOM killer is readable.
# when: all
echo +memory >/sys/fs/cgroup/cgroup.subtree_control
mkdir /sys/fs/cgroup/labsmall
echo 64M >/sys/fs/cgroup/labsmall/memory.max
# within COMMAND…
within() { sh -c 'echo $$ >/sys/fs/cgroup/labsmall/cgroup.procs; exec "$@"' within "$@"; }
set -- --name=job --filename="$(disk 0)" --rw=read --direct=1 --time_based --output-format=json

expect 1 within fathom run "$@" --bs=1m --iodepth=32 --numjobs=4 --runtime=5 --record=refused
says err "need 128 MiB of memory, but the limit of this cgroup is 64 MiB"
says err "lower iodepth, bs or numjobs"
is out type object
check "no record of what was not run" [ ! -e refused ]

# It fits at first; then others leave it too little.
within fathom run "$@" --bs=1m --iodepth=32 --runtime=30 --record=killed >out 2>err &
working killed 3
echo 16M >/sys/fs/cgroup/labsmall/memory.max
status=0
wait $! || status=$?
check "the kernel killed it ($status)" [ $status = 137 ]
says /sys/fs/cgroup/labsmall/memory.events "oom_kill 1"
says killed/record.json "it was still running when fathom was killed"
is killed/record.json '.plan.jobs | length' 1
# The kill may have cut the last line short.
jq -R 'fromjson?' killed/samples.ndjson | jq -s . >samples.json
is samples.json 'length >= 2 and last.jobs[0].dirs.read.ios > 0' true
keep killed
nothing_left
