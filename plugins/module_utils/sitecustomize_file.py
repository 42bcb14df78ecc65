# Copyright: gpu_node.tuning contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The file itself: find it, look at it without changing it, replace its bytes atomically through the symlink."""

from __future__ import annotations

import contextlib
import errno
import glob
import os
import re
import stat
import tempfile
from typing import NamedTuple, Optional

from ansible_collections.gpu_node.tuning.plugins.module_utils.errors import TuningError
from ansible_collections.gpu_node.tuning.plugins.module_utils.plain_file import read_plain

LARGEST = 1024 * 1024  # bytes; the distribution's file has 155
TEMPORARY = ".gpu_node.tuning."
NO_ATTRIBUTES = (errno.ENOTSUP, errno.ENOSYS)
OF_THE_KERNEL = ("security.ima", "security.evm")  # they speak of the bytes, and the kernel makes them anew
COMPILED = re.compile(r"sitecustomize\..*\.pyc")


class DanglingLink(TuningError):
    """The path is a symbolic link whose target does not exist."""


class FileState(NamedTuple):
    """A file as it was found. ``target`` is ``path`` with every symlink followed; ``link`` the text of the last component's symlink, if it is one.

    ``content`` (bytes), ``mode``, ``uid`` and ``gid`` are None where the file is absent. Absent with a ``link``: the link dangles.
    ``attributes``: the extended ones, name to bytes; None where the file is absent, or where a record does not say.
    """

    path: str
    target: str
    link: Optional[str]
    content: Optional[bytes]
    mode: Optional[int]
    uid: Optional[int]
    gid: Optional[int]
    attributes: Optional[dict] = None

    @property
    def exists(self) -> bool:
        return self.content is not None

    def same_as(self, other: FileState) -> bool:
        """All but the extended attributes, which the system changes by itself (a new label), is as in ``other``."""
        return self._replace(attributes=None) == other._replace(attributes=None)


def path_of_scope(scope: str, service_dir: Optional[str], resolution: dict) -> str:
    """The sitecustomize.py of the scope ``service`` (in ``service_dir``) or ``system`` (see locate)."""
    return os.path.join(service_dir, "sitecustomize.py") if scope == "service" else locate(resolution)


def locate(resolution: dict) -> str:
    """The path of the system scope: what the interpreter imports, or where it would look first for one of its own.

    ``resolution``: the answer of probe_program.resolve. Raises TuningError for a package or a compiled module of that name.
    """
    origin = resolution["origin"]
    for candidate in resolution["candidates"]:
        if origin and os.path.dirname(candidate) in (os.path.dirname(origin), os.path.dirname(os.path.dirname(origin))):
            break
        if candidate.endswith(".py"):
            return candidate  # a directory or a broken link before the winner: look() refuses it with the reason
    if origin is None:
        return os.path.join(resolution["purelib"], "sitecustomize.py")
    if not origin.endswith("sitecustomize.py"):
        raise TuningError(
            f"{origin}: this interpreter imports sitecustomize from something else than a file sitecustomize.py. "
            f"Legal: a plain file. Move it away, or use scope: service."
        )
    return origin


def look(path: str) -> FileState:
    """Take the state of ``path``. Raises TuningError for anything that is neither absent nor a readable plain file of sane size."""
    link = os.readlink(path) if os.path.islink(path) else None
    try:
        found = os.stat(path)
    except FileNotFoundError:
        if link is not None:
            raise DanglingLink(
                f"{path}: dangling symbolic link to {link}, which does not exist. Put the target back "
                f"(Debian and Ubuntu: reinstall the package that owns the link with dpkg option --force-confmiss) or remove the link."
            ) from None
        return FileState(path, os.path.realpath(path), None, None, None, None, None)
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise TuningError(
                f"{path}: a loop of symbolic links. Remove the link, or put the package's own back."
            ) from error
        raise TuningError(f"{path}: cannot be looked at: {error.strerror}. {_advice(error.errno)}") from error
    if link is not None and os.lstat(path).st_uid not in (0, found.st_uid):
        raise TuningError(
            f"{path}: a symbolic link of user {os.lstat(path).st_uid} to a file of user {found.st_uid}; whoever made the link may not be "
            f"entitled to what is behind it. Legal: a link of root's or of the file's owner. Remove the link."
        )
    if not stat.S_ISREG(found.st_mode):
        kind = "a directory" if stat.S_ISDIR(found.st_mode) else "not a plain file"
        raise TuningError(f"{path}: {kind}. Legal: a plain file, a symbolic link to one, or nothing. Move it away.")
    if found.st_size > LARGEST:
        raise TuningError(
            f"{path}: {found.st_size} bytes; legal: at most {LARGEST}. Every interpreter would read it at start. Look what it is."
        )
    try:
        content = read_plain(path, follow=True)
    except OSError as error:
        raise TuningError(f"{path}: cannot be read: {error.strerror}. Become root, or repair its mode.") from error
    return FileState(
        path,
        os.path.realpath(path),
        link,
        content,
        stat.S_IMODE(found.st_mode),
        found.st_uid,
        found.st_gid,
        _attributes(path),
    )


def hard_link_remarks(state: FileState) -> list:
    """What must be told before the file is replaced: a rename cuts it loose from its other names."""
    if not state.exists:
        return []
    try:
        others = os.stat(state.target).st_nlink - 1
    except OSError:
        return []  # it has gone since it was looked at
    if not others:
        return []
    why = "They keep the old bytes, for the file is replaced and not overwritten"
    return [
        f"{state.target}: has {others} more name(s), hard links. {why}. Find them with: find / -xdev -samefile {state.target}"
    ]


def look_at_any(path: str) -> FileState:
    """As look(), but a dangling link is a state like others."""
    try:
        return look(path)
    except DanglingLink:
        return FileState(path, os.path.realpath(path), os.readlink(path), None, None, None, None)


def write(state: FileState, content: bytes, mode: int = 0o644) -> list:
    """Make ``content`` the bytes of the file that ``state`` shows: atomic, through the symlink, same mode, owner and extended attributes.

    A new file gets ``mode``. Returns the directories that had to be made, outermost first. Raises TuningError; the old file then stands.
    """
    directory = os.path.dirname(state.target)
    made = _make_directories(directory)
    temporary = None
    try:
        descriptor, temporary = tempfile.mkstemp(prefix=os.path.basename(state.target) + TEMPORARY, dir=directory)
        with os.fdopen(descriptor, "wb") as stream:
            stream.write(content)
            stream.flush()
            _copy_metadata(state, stream.fileno(), mode)
            os.fsync(stream.fileno())
        os.replace(temporary, state.target)
        temporary = None
    except OSError as error:
        raise TuningError(
            f"{state.target}: cannot be replaced atomically: {error.strerror} ({errno.errorcode.get(error.errno, error.errno)}). "
            f"{_advice(error.errno)} The file is as it was."
        ) from error
    finally:
        if temporary is not None:
            with contextlib.suppress(OSError):  # the next run sweeps it away
                os.unlink(temporary)
        if temporary is not None or not os.path.lexists(state.target):
            remove_directories(made)
    return made


def remove(state: FileState) -> None:
    """Delete the file (its target, where it is a link)."""
    try:
        os.unlink(state.target)
    except OSError as error:
        raise TuningError(
            f"{state.target}: cannot be removed: {error.strerror}. {_advice(error.errno)} The file is as it was."
        ) from error


def restore(state: FileState) -> list:
    """Make ``state.path`` what ``state`` shows: absent, a plain file, or a symbolic link with that text and the bytes behind it.

    Returns the directories that had to be made, outermost first. Raises TuningError. What already is as wanted is not touched.
    """
    now = look_at_any(state.path)
    if now.same_as(state):
        return []
    made = []
    if state.link is not None and now.link != state.link:
        if state.exists:
            # The bytes first: until the link is in its place, the path shows what stood there, and then all of the new.
            made = write(state, state.content)
            settle(state._replace(path=state.target))
            return made + _make_link(state)
        made = _make_link(state)
    if not state.exists:
        if state.link is None:
            if os.path.lexists(state.path):
                remove(state._replace(target=state.path))
        elif os.path.lexists(state.target):
            remove(state)
        return made
    if state.link is None and now.link is not None:
        state = state._replace(target=state.path)
    return made + write(state, state.content)


def settle(state: FileState, cached: Optional[str] = None) -> None:
    """After a change: make the rename survive a power loss, and let no interpreter run a compiled copy of the old bytes.

    ``cached``: the compiled copy that the interpreter names, which is elsewhere when PYTHONPYCACHEPREFIX is set.
    """
    try:
        for directory in filter(os.path.isdir, _directories(state)):
            sync_directory(directory)
    except OSError as error:
        raise TuningError(
            f"{state.target}: its directory cannot be written to the disk: {error.strerror}. {_advice(error.errno)}"
        ) from error
    drop_bytecode(state, cached)


def drop_bytecode(state: FileState, cached: Optional[str] = None) -> None:
    """Delete compiled copies: a rewrite of the same size within the same second would otherwise run the old one.

    Where the file itself is gone, the folder that Python made for its copy goes too.
    """
    caches = {os.path.join(os.path.dirname(source), "__pycache__") for source in (state.path, state.target)}
    for cache in caches | ({os.path.dirname(cached)} if cached else set()):
        for compiled in glob.glob(os.path.join(glob.escape(cache), "sitecustomize.*.pyc")):
            try:
                os.unlink(compiled)
                sync_directory(cache)
            except OSError as error:
                raise TuningError(
                    f"{compiled}: stale bytecode cannot be removed: {error.strerror}. {_advice(error.errno)}"
                ) from error
    for source in (state.path, state.target):
        if not os.path.lexists(source):
            with contextlib.suppress(OSError):  # it holds what others compiled: it stays
                os.rmdir(os.path.join(os.path.dirname(source), "__pycache__"))


def missing_bytecode_folders(state: FileState, cached: Optional[str] = None) -> list:
    """Folders that an interpreter would make to compile the file, outermost first. ``cached``: as for settle()."""
    folders = {os.path.join(directory, "__pycache__") for directory in _directories(state)}
    folders |= {os.path.dirname(cached)} if cached else set()
    return sorted({missing for folder in folders for missing in _missing(folder)})


def sweep(state: FileState) -> None:
    """Delete temporary files that an interrupted run left beside the file."""
    for path in (state.target, state.path):
        for leftover in glob.glob(glob.escape(path + TEMPORARY) + "*"):
            try:
                os.unlink(leftover)
            except OSError as error:
                raise TuningError(
                    f"{leftover}: left by an interrupted run, cannot be removed: {error.strerror}. {_advice(error.errno)}"
                ) from error


def sync_directory(directory: str) -> None:
    """Make renames in ``directory`` survive a power loss."""
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def remove_directories(made: list) -> None:
    """Remove the directories ``made`` (outermost first) as far as they are empty, with the empty bytecode folder that Python leaves."""
    for directory in reversed(made):
        for path in (os.path.join(directory, "__pycache__"), directory):
            try:
                os.rmdir(path)
            except OSError:
                pass  # not there, or somebody else put something into it: it stays


def empty_directories(made: list) -> list:
    """Those of the directories ``made`` (outermost first) that drop_bytecode and remove_directories would remove."""
    empty = []
    for directory in reversed(made):
        try:
            entries = {os.path.join(directory, name) for name in os.listdir(directory)}
        except OSError:
            continue  # not there, or nothing that we can judge
        cache = os.path.join(directory, "__pycache__")
        if cache in entries and all(COMPILED.fullmatch(name) for name in os.listdir(cache)):
            entries.remove(cache)
        if not entries - set(empty):
            empty.append(directory)
    return empty


def _directories(state: FileState) -> list:
    """Where the file is: behind its link, and where the link stands."""
    return list(dict.fromkeys((os.path.dirname(state.target), os.path.dirname(state.path))))


def missing_directories(state: FileState) -> list:
    """Directories that a write to the file would have to make, outermost first."""
    return _missing(os.path.dirname(state.target))


def _missing(directory: str) -> list:
    missing = []
    while not os.path.isdir(directory):
        missing.insert(0, directory)
        directory = os.path.dirname(directory)
    return missing


def _make_directories(directory: str) -> list:
    made = []
    for path in _missing(directory):
        try:
            os.mkdir(path)
            made.append(path)
            os.chmod(path, 0o755)  # noqa: S103 - whatever the umask: the service's user must get in
            sync_directory(os.path.dirname(path))
        except OSError as error:
            remove_directories(made)
            raise TuningError(
                f"{path}: the directory cannot be made: {error.strerror}. {_advice(error.errno)}"
            ) from error
    return made


def _make_link(state: FileState) -> list:
    """Put the symbolic link back, atomically. What stood in its place is in a generation. Returns the directories that had to be made."""
    temporary = state.path + TEMPORARY + "link"
    made = _make_directories(os.path.dirname(state.path))
    try:
        if os.path.lexists(temporary):
            os.unlink(temporary)
        os.symlink(state.link, temporary)
        os.replace(temporary, state.path)
        return made
    except OSError as error:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        remove_directories(made)
        raise TuningError(
            f"{state.path}: the symbolic link to {state.link} cannot be put back: {error.strerror}. {_advice(error.errno)}"
        ) from error


def _copy_metadata(state: FileState, descriptor: int, mode: int) -> None:
    if not state.exists:
        os.fchmod(descriptor, mode)
        return
    own = os.fstat(descriptor)
    if (own.st_uid, own.st_gid) != (state.uid, state.gid):
        os.fchown(descriptor, state.uid, state.gid)
    os.fchmod(descriptor, state.mode)
    # What others added to the file that stands there stays. Those behind a link that a plain file replaces are another file's.
    standing = {} if os.path.islink(state.target) else _attributes(state.target)
    for name, value in {**standing, **(state.attributes or {})}.items():
        _set_attribute(descriptor, name, value)


def _set_attribute(descriptor: int, name: str, value: bytes) -> None:
    try:
        if name not in os.listxattr(descriptor) or os.getxattr(descriptor, name) != value:
            os.setxattr(descriptor, name, value)
    except OSError as error:
        if error.errno not in NO_ATTRIBUTES:  # it came from a file system that has them to one that has not
            raise


def _attributes(path: str) -> dict:
    """Name to bytes, the SELinux label and the access control list among them; {} where the file system has none."""
    found = {}
    try:
        for name in os.listxattr(path):
            if name not in OF_THE_KERNEL:
                with contextlib.suppress(PermissionError):  # not for this user to read, nor to set
                    found[name] = os.getxattr(path, name)
    except OSError as error:
        if error.errno not in (*NO_ATTRIBUTES, errno.ENOENT):  # ENOENT: a removed file is being put back
            raise TuningError(f"{path}: its extended attributes cannot be read: {error.strerror}.") from error
    return found


def _advice(number: Optional[int]) -> str:
    return {
        errno.ENOTDIR: "A part of this path is a file. Name another directory.",
        errno.EACCES: "Become root (become: true), or use scope: service with a directory of your own.",
        errno.EPERM: "The file may be immutable (lsattr), or you are not its owner: become root.",
        errno.EROFS: "The file system is read-only: remount it, or use scope: service with a directory elsewhere.",
        errno.ENOSPC: "The file system is full: make room.",
        errno.EDQUOT: "The quota is used up: make room.",
        errno.EBUSY: "The file is a mount point of its own (a bind mount into a container?): unmount it, or use scope: service.",
        errno.EXDEV: "The file is a mount point of its own: unmount it, or use scope: service.",
    }.get(number, "The file system must allow a file to be renamed onto another.")
