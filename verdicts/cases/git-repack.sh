# cause: git compresses the objects of a repository: it computes.
# expect: own-cpu
# busy: own-cpu, other-cpu
# packages: git
prepare() {
    git init -q repo
    for i in $(seq 400); do shuf -i 1-30000 >repo/$i; done
    git -C repo add .
    git -C repo -c user.name=a -c user.email=a@b commit -qm one
}
program() { for_s 5 git -C repo repack -adfq --window=250 --depth=50 --threads=1; }
