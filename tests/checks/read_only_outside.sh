#!/bin/sh
# Run a command on a machine of which nothing but one directory can be written.
#
#   read_only_outside.sh DIRECTORY COMMAND [ARGUMENT ...]
#
# A mount namespace of its own, in which every file system is read-only except DIRECTORY and the kernel's own (/proc, /sys
# and /dev, with an empty /dev/shm). The machine itself keeps its mounts.
set -eu

if [ "${IN_NAMESPACE:-}" != yes ]; then
    exec env IN_NAMESPACE=yes unshare --mount --propagation private "$0" "$@"
fi
unset IN_NAMESPACE

writable=$1
shift
mount --bind "$writable" "$writable"
cut -d ' ' -f 5 /proc/self/mountinfo | sort -u | while read -r escaped; do
    point=$(printf '%b' "$escaped") # spaces are written as \040
    case $point in
        "$writable" | /dev | /dev/* | /proc | /proc/* | /sys | /sys/*) ;;
        *) mount -o remount,bind,ro "$point" 2>/dev/null || [ ! -w "$point" ] || echo "cannot protect $point" >&2 ;;
    esac
done
mount -t tmpfs tmpfs /dev/shm
if touch "$writable/../.probe" 2>/dev/null; then
    echo "the directory around $writable can still be written" >&2
    exit 1
fi
cd "$writable"
exec "$@"
