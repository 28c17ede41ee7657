# cause: A postgres server with one client that commits small updates: it computes, and waits for a flush of the log each time.
# expect: own-cpu, flush
# busy: own-cpu, flush, other-cpu
# peers: pgbench
# packages: postgresql postgresql-contrib
# watch: 5s
prepare() {
    postgres_server -c shared_buffers=512MB
    pgbench -i -q -s 10 2>/dev/null
    psql -qc checkpoint
}
program() {
    starts pgbench -T 60 -N -c 1
    sleep 0.5
    postgres_pid
}
clean() { ends; }
