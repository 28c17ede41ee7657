# cause: RocksDB reads random keys that are in memory.
# expect: own-cpu
# busy: own-cpu, other-cpu
# packages: rocksdb-tools
prepare() { db_bench --benchmarks=fillseq,compact --db="$DIR/db" --num=1000000 >/dev/null 2>&1; }
program() { exec db_bench --benchmarks=readrandom --use_existing_db=1 --db="$DIR/db" --num=1000000 --duration=5 --cache_size=1000000000; }
