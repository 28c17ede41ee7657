# cause: git reads the attributes of 25,000 cold files: one read of the disk at a time, or its CPU time, whichever takes longer.
# expect: queue-depth, own-cpu
# busy: queue-depth, own-cpu, other-cpu
# packages: git
prepare() {
    git init -q repo
    cd repo
    mkdir files
    head -c 200m /dev/urandom | (cd files && split -b 8k -a 4)
    git add .
    find . -path ./.git -prune -o -type f -print | xargs touch
    sync
    echo 3 >/proc/sys/vm/drop_caches
}
program() { git -C repo -c core.preloadindex=false status >/dev/null; }
