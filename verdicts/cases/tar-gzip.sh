# cause: tar with gzip of files in memory: gzip computes.
# expect: own-cpu
# busy: own-cpu, other-cpu
# packages: tar gzip
prepare() { filled data 400m; cat data >/dev/null; }
program() { for_s 5 tar -czf out.tar.gz data; }
