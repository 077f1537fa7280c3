# Machines with a bare Debian, as chroots of the Debian that this machine has, for scripts that source this. They set `work`, a
# folder of their own, and call `end_machines` when they end.
#
# A bare Debian is apt, systemd and what Debian requires. It is kept for two weeks as a tar file, in the folder that
# FALLOW_CHROOTS names, or /var/cache/fallow-chroots.
kept=${FALLOW_CHROOTS:-/var/cache/fallow-chroots}
machines=()
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
    root=$work/$1
    mkdir "$root"
    tar -x -f "$kept/bare.tar" -C "$root"
    echo force-unsafe-io >"$root/etc/dpkg/dpkg.cfg.d/try"
    printf '%s;\n' 'APT::Get::Assume-Yes "true"' 'Acquire::Languages "none"' 'APT::AutoRemove::RecommendsImportant "false"' \
        'APT::AutoRemove::SuggestsImportant "false"' >"$root/etc/apt/apt.conf.d/99try"
    exec {ready}< <(exec unshare --mount --propagation private sh -e -c '
        mount --rbind "$0" "$0" && cd "$0"
        mount -t proc proc proc && mount --rbind /sys sys
        mount -t tmpfs -o mode=755 tmpfs run && mkdir -m 1777 run/lock
        pivot_root . mnt && umount -l /mnt
        echo ready && exec sleep infinity' "$root")
    holder=$!
    machines+=("$holder")
    read -r -u "$ready" _ || fail "the chroot $1 is not made"
}
enter() {
    exec nsenter --target "$holder" --mount env -i --chdir=/root HOME=/root PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin \
        LC_ALL=C.UTF-8 DEBIAN_FRONTEND=noninteractive SYSTEMD_OFFLINE=1 "$@"
}
in_it() { (enter "$@"); }
# The same for what talks much: only if it fails, all of it is shown.
quietly() { in_it "$@" >"$work/quiet.said" 2>&1 || { cat "$work/quiet.said" >&2; fail "failed: $*"; }; }
end_machines() {
    local each
    for each in "${machines[@]}"; do kill "$each" 2>/dev/null && wait "$each" 2>/dev/null || true; done
}
