# cause: A program computes in a cgroup that grants it a fifth of a CPU.
# expect: cpu-quota
prepare() {
    mkdir -p /sys/fs/cgroup/cpu/fathom-verdicts
    echo 100000 >/sys/fs/cgroup/cpu/fathom-verdicts/cpu.cfs_period_us
    echo 20000 >/sys/fs/cgroup/cpu/fathom-verdicts/cpu.cfs_quota_us
}
program() {
    echo $$ >/sys/fs/cgroup/cpu/fathom-verdicts/cgroup.procs
    exec perl -e 'alarm 6; 1 while 1'
}
clean() { sleep 0.5; rmdir /sys/fs/cgroup/cpu/fathom-verdicts; }
