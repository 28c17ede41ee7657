# cause: tar reads 25,000 small cold files: one read of the disk at a time, or its CPU time, whichever takes longer.
# expect: queue-depth, own-cpu
# busy: queue-depth, own-cpu, other-cpu
# packages: tar
prepare() {
    mkdir files
    head -c 200m /dev/urandom | (cd files && split -b 8k -a 4)
    sync
    echo 3 >/proc/sys/vm/drop_caches
}
program() { tar -cf - files | cat >/dev/null; }
