#!/usr/bin/env bash
# Copyright: gpu_node.tuning contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# usage: build_image.sh [--force] SUITE...
#
# Builds one container image for each Debian suite with mmdebstrap, from Debian's packages, and prints the image's
# reference, one line a suite. podman's storage is the cache: the tag is a digest of this recipe and the mirror, an image
# that is there already is not built again, and a new one replaces the old ones of its suite.
#
# DEBIAN_MIRROR overrides the mirror, for a suite that has moved to the archive.
set -euo pipefail

here=$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")
podman=$here/podman
repository=localhost/gpu_node_tuning

fail() {
    echo "build_image.sh: $*" >&2
    exit 1
}

# The Debian mirror that this host's apt is configured with. Empty on another distribution, or where apt uses
# something that a chroot cannot (cdrom:, mirror+file:): mmdebstrap then takes its own default.
host_mirror() {
    local ID='' VERSION_CODENAME=''
    # shellcheck source=/dev/null
    . /etc/os-release
    [[ $ID == debian ]] || return 0
    # shellcheck disable=SC2016 # apt-get expands these
    apt-get indextargets --format '$(RELEASE) $(COMPONENT) $(REPO_URI)' 'Created-By: Packages' |
        awk -v release="$VERSION_CODENAME" '$1 == release && $2 == "main" && $3 ~ /^https?:/ { print $3; exit }'
}

# The python that a suite is here for. A suite that moves on (forky, until it is released) must fail loudly: its
# tests would otherwise go on under the name of a version that they no longer have.
python_of() {
    case $1 in
        bullseye) echo 3.9 ;;
        bookworm) echo 3.11 ;;
        trixie) echo 3.13 ;;
        forky) echo 3.14 ;;
        *) fail "unknown suite '$1'; known: bullseye bookworm trixie forky" ;;
    esac
}

build() {
    local suite=$1 image=$2 python
    python=$(python_of "$suite")
    local packages=systemd,systemd-sysv,dbus,python3,python3-venv,procps,passwd
    if [[ $suite == bullseye ]]; then
        packages+=,python2-minimal # the last Debian with a Python 2: an interpreter that must be refused
    elif [[ $suite == bookworm ]]; then
        packages+=,strace,e2fsprogs # to kill a run at a chosen system call; chattr
    fi

    local options=()
    if [[ $suite == forky ]]; then
        # The only suite that is not released yet, thus the only one whose index expires (after a week). A mirror that
        # lags would stop the build. Signatures are still checked, and the hook below says so when it was out of date.
        options+=(--aptopt='Acquire::Check-Valid-Until "false"')
    fi
    local proxy=''
    eval "$(apt-config shell proxy Acquire::http::Proxy)"
    if [[ -n $proxy ]]; then
        options+=(--aptopt="Acquire::http::Proxy \"$proxy\"")
    fi

    # What is masked would change the host's kernel from within a privileged container (sysctl, modules, binfmt, mounts
    # below /sys and /proc, udev), wants a terminal, or is a timer that writes while a test compares trees. The journal
    # stays in memory for the same reason.
    local hook
    hook=$(
        cat <<'HOOK'
set -eu
root=$1
found=$(chroot "$root" python3 -c 'import sys; print("%d.%d" % sys.version_info[:2])')
if [ "$found" != "$python" ]; then
    echo "build_image.sh: $suite has python$found, its tests are written for python$python" >&2
    exit 1
fi
until=$(sed -n 's/^Valid-Until: //p' "$root"/var/lib/apt/lists/*Release | head -n 1)
if [ -n "$until" ] && [ "$(date -d "$until" +%s)" -lt "$(date +%s)" ]; then
    echo "build_image.sh: note: the mirror's index of $suite was valid until $until only" >&2
fi
for unit in systemd-modules-load.service systemd-sysctl.service systemd-binfmt.service \
    proc-sys-fs-binfmt_misc.automount proc-sys-fs-binfmt_misc.mount dev-hugepages.mount \
    sys-kernel-debug.mount sys-kernel-tracing.mount sys-kernel-config.mount sys-fs-fuse-connections.mount \
    systemd-udevd.service systemd-udev-trigger.service systemd-udevd-control.socket systemd-udevd-kernel.socket \
    systemd-remount-fs.service systemd-random-seed.service systemd-logind.service getty.target timers.target; do
    ln -sf /dev/null "$root/etc/systemd/system/$unit"
done
ln -sf /lib/systemd/system/multi-user.target "$root/etc/systemd/system/default.target"
mkdir -p "$root/etc/systemd/journald.conf.d"
printf '[Journal]\nStorage=volatile\n' >"$root/etc/systemd/journald.conf.d/volatile.conf"
chroot "$root" useradd --create-home --shell /bin/sh engine
# The vendor's package itself, for a real reinstall on a container without network.
mkdir -p "$root/var/cache/debs"
chroot "$root" sh -c "cd /var/cache/debs && apt-get -qq -o APT::Sandbox::User=root download libpython$python-minimal"
# No host name, resolver or machine id of the build host.
: >"$root/etc/machine-id"
: >"$root/etc/resolv.conf"
echo localhost >"$root/etc/hostname"
HOOK
    )

    # Unpacked first: a broken pipe must not leave half an image under a name that says it is whole.
    local scratch
    scratch=$(mktemp -d)
    # shellcheck disable=SC2064
    trap "rm -rf '$scratch'" EXIT
    # shellcheck disable=SC2097,SC2098 # for the hook, which reads both from its environment
    suite=$suite python=$python mmdebstrap --quiet --mode=root --variant=minbase --include="$packages" \
        --aptopt='APT::Install-Recommends "false"' \
        --dpkgopt='path-exclude=/usr/share/man/*' --dpkgopt='path-exclude=/usr/share/locale/*' \
        --customize-hook="$hook" "${options[@]}" "$suite" "$scratch/root.tar" ${mirror:+"deb $mirror $suite main"} >&2
    "$podman" import --quiet --message "Debian $suite for gpu_node.tuning's tests" \
        --change 'CMD ["/lib/systemd/systemd"]' --change 'STOPSIGNAL SIGRTMIN+3' \
        "$scratch/root.tar" "$image" >/dev/null
    rm -rf "$scratch"
    trap - EXIT
}

force=false
if [[ ${1:-} == --force ]]; then
    force=true
    shift
fi
(($# > 0)) || fail "usage: build_image.sh [--force] SUITE..."
((EUID == 0)) || exec sudo -n ${DEBIAN_MIRROR:+DEBIAN_MIRROR="$DEBIAN_MIRROR"} "$0" "$@"

mirror=${DEBIAN_MIRROR:-$(host_mirror)}
recipe=$({ cat "$here/build_image.sh"; echo "$mirror"; } | sha256sum | cut -c1-12)

for suite; do
    python_of "$suite" >/dev/null
    image=$repository/$suite:$recipe
    if $force || ! "$podman" image exists "$image"; then
        build "$suite" "$image"
        # Only the tags: an image that a container still uses stays until that container goes.
        "$podman" images --format '{{.Repository}}:{{.Tag}}' "$repository/$suite" | awk -v new="$image" '$0 != new' |
            while IFS= read -r old; do "$podman" rmi "$old" >/dev/null 2>&1 || true; done
    fi
    echo "$image"
done
