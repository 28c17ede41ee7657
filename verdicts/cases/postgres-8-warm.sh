# cause: A postgres server with eight clients and all data in memory: it and its clients use all CPUs.
# expect: own-cpu
# busy: own-cpu, other-cpu
# peers: pgbench
# packages: postgresql postgresql-contrib
# watch: 5s
prepare() {
    postgres_server -c shared_buffers=512MB
    pgbench -i -q -s 10 2>/dev/null
    psql -qc checkpoint
    psql -qc "select sum(abalance) from pgbench_accounts" >/dev/null
}
program() {
    starts pgbench -T 60 -S -c 8 -j 2
    sleep 0.5
    postgres_pid
}
clean() { ends; }
