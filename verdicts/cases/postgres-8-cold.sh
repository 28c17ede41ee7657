# cause: A postgres server with eight clients reads rows of a cold table from the disk.
# expect: device, queue-depth, own-cpu
# busy: device, queue-depth, other-cpu, own-cpu
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
    starts pgbench -T 60 -S -c 8 -j 2
    sleep 0.5
    postgres_pid
}
clean() { ends; }
