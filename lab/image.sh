#!/bin/bash
# shellcheck disable=SC2086
# Builds what guests boot: OUT/kernel-VERSION and OUT/initrd-VERSION. The latter contains modules, Debian's programs, those in
# PROGRAMS, and the cases. Packages are unpacked below LAB/packages and never installed; a second run needs no network.
#
#     lab/image.sh LAB OUT PROGRAMS VERSION…
set -euo pipefail
export LC_ALL=C
umask 022
lab=$1 out=$2 programs=$3
shift 3
here=$(cd "$(dirname "$0")" && pwd)
mirror=http://deb.debian.org/debian
keyring=/usr/share/keyrings/debian-archive-keyring.gpg
packages=$lab/packages
# The guest's own runs on the host too: it has cpio and depmod, which few hosts have.
busybox=$packages/tools/bin/busybox

# The guest's programs and the libraries that they link.
tools="attr btrfs-progs busybox-static dmsetup e2fsprogs fdisk gojq libacl1 libattr1 libblkid1 libbsd0 libc6 libcap-ng0 libcap2
    libcom-err2 libcrypt1 libdbus-1-3 libdevmapper1.02.1 libedit2 libext2fs2 libfdisk1 libgcc-s1 libgcrypt20 libgpg-error0
    libhwloc15 libinih1 libjson-c5 liblz4-1 liblzma5 liblzo2-2 libmd0 libmount1 libnvme1 libpcre2-8-0 libreadline8 libselinux1
    libslurm38 libsmartcols1 libss2 libssl3 libsystemd0 libtinfo6 libudev1 liburcu8 libuuid1 libzstd1 mdadm mount mpich nvme-cli util-linux
    xfsprogs zlib1g"
# Modules that cases may load, with what they depend on. Some kernels lack some of them or have them built in.
modules="bfq brd btrfs configfs crc32c_generic crc32c_intel crc32c_cryptoapi crct10dif_generic dm_crypt dm_delay dm_dust
    dm_flakey dm_log_writes dm_mod dm_snapshot ext4 libcrc32c loop lzo lzo_rle md_mod null_blk nvme nvme_tcp nvmet_tcp overlay raid0 raid1
    scsi_debug sd_mod sg vfat virtio_blk virtio_console virtio_net virtio_pci xfs zram"

die() {
    echo "lab: $*" >&2
    exit 1
}

# The packages of the host's programs that are missing.
missing() {
    while read -r program package; do
        command -v "$program" >/dev/null || echo "$package"
    done <<'END'
apt-get apt
dpkg dpkg
qemu-system-x86_64 qemu-system-x86
strip binutils
xz xz-utils
zstd zstd
END
}

# Installs them if possible.
host() {
    local packages
    packages=$(missing)
    [ -n "$packages" ] || return 0
    if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
        echo "installing" $packages
        export DEBIAN_FRONTEND=noninteractive
        # The package lists may be outdated.
        for update in true "apt-get -qq update"; do
            $update
            apt-get -qq install --yes --no-install-recommends $packages >/dev/null && break
        done || true
        packages=$(missing)
    fi
    [ -z "$packages" ] || die "missing on this machine: install the packages" $packages
}

# Selects a suite of Debian's archive, with package lists separate from the host's.
suite() {
    [ -e $keyring ] || die "no $keyring: install debian-archive-keyring"
    echo "fetching packages of Debian's $1"
    suite=$lab/apt/$1
    mkdir -p "$suite/lists/partial" "$suite/cache/archives/partial"
    : >"$suite/status"
    echo "deb [signed-by=$keyring target=Packages] $mirror $1 main" >"$suite/sources.list"
    apt get -q update >/dev/null
}

# apt get|cache ARGUMENT…, on that suite.
apt() {
    local program=apt-$1
    shift
    "$program" -o Dir::State="$suite/" -o Dir::State::lists="$suite/lists" -o Dir::State::status="$suite/status" \
        -o Dir::Cache="$suite/cache" -o Dir::Etc::sourcelist="$suite/sources.list" -o Dir::Etc::sourceparts=/dev/null \
        -o Dir::Etc::preferencesparts=/dev/null -o Acquire::Languages=none -o Acquire::Retries=3 \
        -o APT::Sandbox::User=root -o APT::Architecture=amd64 "$@"
}

depends() {
    apt cache depends --important "$1" | sed -n 's/^ *|*Depends: //p'
}

# unpack DIRECTORY PACKAGE…
unpack() {
    local dir=$1 debs=$suite/debs
    shift
    rm -rf "$dir" "$debs"
    mkdir -p "$dir" "$debs"
    (cd "$debs" && apt get -q download "$@" >/dev/null)
    for deb in "$debs"/*; do dpkg -x "$deb" "$dir"; done
    rm -r "$debs"
}

# archive DIRECTORY FIND-TEST…: everything in it that passes. Several archives one after the other are an archive, too.
archive() {
    local dir=$1
    shift
    (cd "$dir" && find . -mindepth 1 "$@" | "$busybox" cpio -o -H newc -R 0:0 2>/dev/null)
}

is_current() {
    [ "$1" -nt "$here/image.sh" ]
}

tools() {
    local dir=$packages/tools
    if [ "$(cat "$dir/packages.list" 2>/dev/null)" != "$tools" ]; then
        suite bookworm
        unpack "$dir" $tools
        echo "$tools" >"$dir/packages.list"
    fi
    is_current "$packages/tools.cpio" && return
    archive "$dir" \( -path ./usr/share -o -path '*/gconv' -o -path '*/lib/systemd' -o -path '*/lib/udev' -o \
        -name packages.list \) -prune -o -print >"$packages/tools.cpio"
}

# The packages of a kernel; linux-image-amd64 is empty and depends on the newest one. From 7.x on that is empty too.
kernel() {
    local dir=$packages/kernel-$1 image
    if [ ! -e "$dir/complete" ]; then
        case $1 in
            6.1) suite bookworm ;;
            6.12) suite bookworm-backports ;;
            7) suite trixie-backports ;;
            *) die "no kernel $1" ;;
        esac
        image=$(depends linux-image-amd64 | awk '/^linux-image-/ && !n++')
        [ -n "$image" ] || die "linux-image-amd64 depends on no kernel"
        # shellcheck disable=SC2046
        unpack "$dir" "$image" $(depends "$image" | grep -E '^linux-(image|binary|modules|base)-')
        vmlinux "$dir"
        touch "$dir/complete"
    fi
    is_current "$dir/modules.cpio" || modules "$dir"
}

# vmlinux DIRECTORY: the uncompressed kernel, because decompression takes QEMU seconds; as it is if the compression is unknown.
vmlinux() {
    local packed how at
    packed=$(find "$1" -name 'vmlinuz*')
    for how in 'xz \xfd7zXZ\x00' 'zstd \x28\xb5\x2f\xfd'; do
        for at in $(grep -abobP "${how#* }" "$packed" | cut -d: -f1); do
            # It complains about trailing bytes.
            tail -c "+$((at + 1))" "$packed" | ${how%% *} -dc >"$1/vmlinux" 2>/dev/null || true
            [ "$(head -c 4 "$1/vmlinux" | tail -c 3)" != ELF ] || return 0
        done
    done
    cp "$packed" "$1/vmlinux"
}

modules() {
    local root version stage name file todo
    root=$(dirname "$(find "$1" -name modules.builtin)")
    version=${root##*/}
    stage=$(mktemp -d -p "$out")
    mkdir -p "$stage/lib/modules/$version"
    find "$root" -name '*.ko*' >"$stage/files"
    # shellcheck disable=SC2206
    todo=($modules)
    while [ ${#todo[@]} -gt 0 ]; do
        name=$stage/lib/modules/$version/${todo[0]}.ko
        file=$(grep -E "/${todo[0]//_/[-_]}\.ko(\.xz|\.zst)?$" "$stage/files" || true)
        todo=("${todo[@]:1}")
        [ -n "$file" ] && [ ! -e "$name" ] || continue
        case $file in
            *.xz) xz -dc "$file" ;;
            *.zst) zstd -dc "$file" ;;
            *) cat "$file" ;;
        esac >"$name"
        # shellcheck disable=SC2207
        todo+=($(tr '\0' '\n' <"$name" | sed -n 's/^depends=//p' | tr ',-' ' _'))
    done
    cp "$root/modules.builtin" "$stage/lib/modules/$version"
    "$busybox" depmod -b "$stage" "$version"
    archive "$stage" ! -name files >"$1/modules.cpio"
    rm -r "$stage"
}

# Files of the workspace: the guest's init, its library, the cases and programs, with the libraries of those. They replace
# Debian's, which may be older than those that the programs were linked with.
own() {
    local stage program library
    stage=$(mktemp -d -p "$out")
    mkdir -p "$stage"/{dev,proc,sys,run,tmp,mnt,root,etc,lab/bin,lab/cases}
    install "$here/guest/init.sh" "$stage/init"
    install -m 644 "$here/guest/lib.sh" "$stage/lab"
    install "$here/guest/ssh.sh" "$stage/lab/bin/ssh"
    install -m 644 "$here"/cases/*.sh "$stage/lab/cases"
    printf '%s\n' root:x:0:0::/root:/bin/sh nobody:x:65534:65534::/tmp:/bin/sh >"$stage/etc/passwd"
    printf '%s\n' root:x:0: nogroup:x:65534: >"$stage/etc/group"
    echo 127.0.0.1 localhost >"$stage/etc/hosts"
    for n in 0 1 2 3; do echo "10.0.0.$((n + 1)) node$n"; done >>"$stage/etc/hosts"
    echo hosts: files >"$stage/etc/nsswitch.conf"
    for program in fathom deny-io-uring; do
        strip -o "$stage/lab/bin/$program" "$programs/$program"
        for library in $(ldd "$programs/$program" | grep -o '/[^ ]*'); do
            cp -L --parents "$library" "$stage"
        done
    done
    archive "$stage" >"$out/own.cpio"
    rm -r "$stage"
}

host
tools
own
for version; do
    kernel "$version"
    cat "$packages/kernel-$version/modules.cpio" "$packages/tools.cpio" "$out/own.cpio" >"$out/initrd-$version"
    ln -s "$(realpath "$packages/kernel-$version/vmlinux")" "$out/kernel-$version"
done
