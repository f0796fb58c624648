"""Where a file really lies: SQLite's locks and its shared memory can't be trusted on network file systems."""

import re
from pathlib import Path

MOUNTINFO = Path("/proc/self/mountinfo")

_NETWORK = frozenset(
    {"nfs", "nfs4", "cifs", "smb3", "smbfs", "9p", "afs", "ceph", "lustre", "gpfs", "beegfs", "orangefs", "pvfs2"}
    | {"glusterfs", "gfs2", "ocfs2", "panfs", "wekafs", "ncpfs", "coda"}
)
_NETWORK_FUSE = frozenset(
    {"sshfs", "glusterfs", "s3fs", "rclone", "gcsfuse", "ceph-fuse", "juicefs", "davfs", "mount.davfs", "seaweedfs"}
    | {"cvmfs", "hdfs", "blobfuse", "blobfuse2", "goofys", "geesefs", "moosefs", "mfs", "lizardfs"}
)


def network_filesystem(path: Path, mountinfo: Path = MOUNTINFO) -> str | None:
    """The type of the network file system that `path` (or its nearest existing parent) lies on; None: a local one.

    Without a readable `mountinfo` nothing is known, and None is returned.
    """
    try:
        text = mountinfo.read_text(errors="surrogateescape")
    except OSError:
        return None
    target = path.resolve().parts
    best: tuple[int, str] = (0, "")
    for line in text.splitlines():
        head, _, tail = line.partition(" - ")
        fields = head.split(" ")
        if len(fields) < 5 or not tail:
            continue
        mount = Path(_unescape(fields[4])).parts
        # of two mounts on one point the later one is the one in sight
        if len(mount) >= best[0] and target[: len(mount)] == mount:
            best = (len(mount), tail.split(" ")[0])
    kind = best[1]
    prefix, _, helper = kind.partition(".")
    if kind in _NETWORK or (prefix in {"fuse", "fuseblk"} and helper in _NETWORK_FUSE):
        return kind
    return None


def _unescape(field: str) -> str:
    """The kernel writes blanks, tabs, line breaks and backslashes in mount points as octal."""
    return re.sub(r"\\([0-7]{3})", lambda match: chr(int(match.group(1), 8)), field)
