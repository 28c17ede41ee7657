# cause: RocksDB reads random keys with direct reads and a small cache: one read of the disk at a time.
# expect: queue-depth
# busy: queue-depth, other-cpu
# packages: rocksdb-tools
prepare() { db_bench --benchmarks=fillseq,compact --db="$DIR/db" --num=4000000 --compression_type=none >/dev/null 2>&1; }
program() {
    exec db_bench --benchmarks=readrandom --use_existing_db=1 --db="$DIR/db" --num=4000000 --duration=5 \
        --use_direct_reads=1 --cache_size=1000000
}
