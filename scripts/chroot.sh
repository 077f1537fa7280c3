# Machines with a bare Debian, as chroots of the Debian that this machine has, for scripts that source this. They set `work`, a
# folder of their own, and call `end_machines` when they end.
#
# A bare Debian is apt, systemd and what Debian requires. It is kept for two weeks as a tar file, in the folder that
# FALLOW_CHROOTS names, or /var/cache/fallow-chroots.
kept=${FALLOW_CHROOTS:-/var/cache/fallow-chroots}
machines=() cgroups=()
fail() { printf '%s: %s\n' "$0" "$*" >&2; exit 1; }
said() { printf '%s (%d s so far)\n' "$*" "$SECONDS"; }
((EUID == 0)) || fail "a chroot needs root"

# From where this machine's apt has Debian, and the way there.
make_bare() {
    local codename
    [[ -z $(find "$kept/bare.tar" -mtime -14 2>/dev/null) ]] || return 0
    codename=$(. /etc/os-release && echo "$VERSION_CODENAME")
    sources() { apt-get indextargets --format "deb $1 \$(REPO_URI) \$(RELEASE) \$(COMPONENT)" "Origin: Debian" "Created-By: Packages" | sort -u; }
    [[ -n $(sources "") ]] || apt-get update -q >&2
    sources "[signed-by=/usr/share/keyrings/debian-archive-keyring.gpg]" >"$work/debian.list"
    apt-config dump | grep -Ei '^acquire::https?::.*(proxy|cainfo)' >"$work/way.conf" || true
    mmdebstrap -q --variant=minbase --include=systemd --aptopt="$work/way.conf" "$codename" "$work/bare.tar" "$work/debian.list"
    mkdir -p "$kept"
    cp "$work/bare.tar" "$kept/bare.tar.$$" && mv "$kept/bare.tar.$$" "$kept/bare.tar"
}

# machine NAME: makes one, whose files are in $root, and which `in_it` means from then on. Its mounts are gone when it ends. apt
# asks nothing there, does not wait for the disk, and keeps no package only because another one recommends or suggests it.
machine() {
    unpack "$1"
    exec {ready}< <(exec unshare --mount --propagation private sh -e -c '
        mount --rbind "$0" "$0" && cd "$0"
        mount -t proc proc proc && mount --rbind /sys sys
        mount -t tmpfs -o mode=755 tmpfs run && mkdir -m 1777 run/lock
        pivot_root . mnt && umount -l /mnt
        echo ready && exec sleep infinity' "$root")
    holder=$! spaces=(--mount) offline=SYSTEMD_OFFLINE=1
    machines+=("$holder")
    read -r -u "$ready" _ || fail "the chroot $1 is not made"
}
# The same, but systemd runs it: processes, cgroups and /run are its own, and no terminal has a login.
booted_machine() {
    unpack "$1"
    local each first
    for each in systemd unified .; do
        [[ ! -e /sys/fs/cgroup/$each/cgroup.procs ]] || { cgroups+=("/sys/fs/cgroup/$each/fallow-try.$$") && mkdir "${cgroups[-1]}"; }
    done
    exec {ready}< <(
        for each in "${cgroups[@]}"; do echo "$BASHPID" >"$each/cgroup.procs"; done
        exec unshare --mount --pid --fork --kill-child --cgroup --ipc --uts --propagation private sh -e -c '
            mount --rbind "$0" "$0" && cd "$0"
            mount -t proc proc proc && mount -t sysfs -o ro sysfs sys
            mount -t tmpfs -o mode=755 tmpfs run && mkdir -m 1777 run/lock
            if [ -e /sys/fs/cgroup/cgroup.procs ]; then
                mount -t cgroup2 cgroup2 sys/fs/cgroup
            else
                mount -t tmpfs tmpfs sys/fs/cgroup && mkdir sys/fs/cgroup/systemd sys/fs/cgroup/unified
                mount -t cgroup -o none,name=systemd cgroup sys/fs/cgroup/systemd
                mount -t cgroup2 cgroup2 sys/fs/cgroup/unified || rmdir sys/fs/cgroup/unified
            fi
            pivot_root . mnt && umount -l /mnt
            echo ready
            exec env -i container=fallow PATH=/usr/sbin:/usr/bin:/sbin:/bin /lib/systemd/systemd --unit=basic.target \
                </dev/null >/var/log/systemd.said 2>&1' "$root"
    )
    machines+=("$!")
    read -r -u "$ready" _ || fail "the chroot $1 is not made"
    first=$(<"/proc/$!/task/$!/children")
    holder=${first%% *} spaces=(--mount --pid --cgroup --ipc --uts) offline=SYSTEMD_OFFLINE=0
    for _ in {1..600}; do
        [[ $(in_it systemctl is-active basic.target 2>/dev/null) != active ]] || return 0
        sleep 0.1
    done
    cat "$root/var/log/systemd.said" >&2
    fail "systemd does not start in the chroot $1"
}
unpack() {
    root=$work/$1
    mkdir "$root"
    tar -x -f "$kept/bare.tar" -C "$root"
    echo force-unsafe-io >"$root/etc/dpkg/dpkg.cfg.d/try"
    printf '%s;\n' 'APT::Get::Assume-Yes "true"' 'Acquire::Languages "none"' 'APT::AutoRemove::RecommendsImportant "false"' \
        'APT::AutoRemove::SuggestsImportant "false"' >"$root/etc/apt/apt.conf.d/99try"
}
enter() {
    exec nsenter --target "$holder" "${spaces[@]}" env -i --chdir=/root HOME=/root PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin \
        LC_ALL=C.UTF-8 DEBIAN_FRONTEND=noninteractive "$offline" "$@"
}
in_it() { (enter "$@"); }
# The same for what talks much: only if it fails, all of it is shown.
quietly() { in_it "$@" >"$work/quiet.said" 2>&1 || { cat "$work/quiet.said" >&2; fail "failed: $*"; }; }
end_machines() {
    local each
    for each in "${machines[@]}"; do kill -KILL "$each" 2>/dev/null && wait "$each" 2>/dev/null || true; done
    for each in "${cgroups[@]}"; do  # its processes end by and by
        for _ in {1..100}; do
            find "$each" -depth -type d -exec rmdir {} + 2>/dev/null && break || sleep 0.1
        done
    done
}
