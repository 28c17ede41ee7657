# cause: A postgres server with one client reads rows of a cold table: one read of the disk at a time, or its CPU time, whichever takes longer.
# expect: queue-depth, own-cpu
# busy: queue-depth, own-cpu, other-cpu
# peers: pgbench
# packages: postgresql postgresql-contrib
# watch: 5s
prepare() {
    postgres_server -c shared_buffers=256MB -c fsync=off
    pgbench -i -q -s 60 2>/dev/null
    psql -qc checkpoint
    ends
    find pg/base -type f -size +1M | while read -r file; do cold "$file"; done
    postgres_server -c shared_buffers=16MB
}
program() {
    starts pgbench -T 60 -S -c 1
    sleep 0.5
    postgres_pid
}
clean() { ends; }
