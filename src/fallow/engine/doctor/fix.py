"""`fallow doctor --fix`: give the claim folder to root, so that its first owner cannot delete in it."""

import os
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress

from fallow.actuators.claims.claims import GATE, ClaimFile
from fallow.actuators.claims.folder import ClaimFolder, FileRefused, folder_path
from fallow.actuators.claims.folder_care import open_to_all
from fallow.actuators.claims.folder_repair import foreign_file, repair
from fallow.core.errors import FallowError, NotPermitted
from fallow.core.ports import Depth
from fallow.core.reasons import Reason
from fallow.engine.allocate.pick import refused_file
from fallow.engine.machine.world import World
from fallow.readers.proc import user_name


def fix(world: World, *, dry_run: bool) -> Iterator[str]:
    """Yield each change as a sentence before it is made; raise NotPermitted if fallow does not run as root."""
    path = folder_path(world.environ)
    if os.geteuid() != 0 and not dry_run:
        raise NotPermitted(f"only root can repair {path}; run: sudo fallow doctor --fix")
    foreign = foreign_file(path)
    if foreign is not None:
        raise NotPermitted(
            f"{path} contains files of other programs, such as {foreign}, and is not changed;"
            " set FALLOW_CLAIM_DIR to another folder"
        )
    try:
        yield from repair(path, world.clock.wall_s(), world.claims_elsewhere(), dry_run=dry_run)
    except OSError as error:
        raise FallowError(f"cannot repair {path}: {error.strerror}") from None


def own_the_folder(world: World, tell: Callable[[str], None]) -> None:
    """Refuse a claim folder that root does not own, and create the gate and each GPU's file, for a daemon of root.

    The owner of the folder could delete protections. A file that cannot be used is reported. Once all of them exist,
    who fills the disk keeps nobody from a GPU.
    """
    if os.geteuid() != 0:
        return
    uid = world.folder.owner_uid
    if uid != 0:
        can = f"{world.folder.path} is {user_name(uid)}'s, who can delete the claims and protections of others"
        raise NotPermitted(f"the claim folder {can}; run: sudo fallow doctor --fix")
    labels = {gpu.uuid: gpu.label for gpu in world.gpu_reader.look(Depth.HOLDERS).gpus if isinstance(gpu.uuid, str)}
    with ExitStack() as stack:
        opened: dict[str, int] = {}
        with suppress(FileRefused):  # launches go on without a gate
            opened[GATE] = world.folder.open_unsettled(GATE)
            stack.callback(os.close, opened[GATE])
        inodes = Counter(world.folder.inode(uuid) for uuid in labels)
        for uuid, label in labels.items():
            try:
                if _has_own_file(world.folder, uuid, inodes):
                    opened[uuid] = world.folder.open_unsettled(uuid)
                    stack.callback(os.close, opened[uuid])
                else:
                    unfit = "its claim file has a second name or is shut, and is claimed"
                    tell(f"GPU {label}: {unfit}; run fallow up again later")
            except FileRefused as error:
                tell(f"GPU {label}: {refused_file(error)}")
        # Any user can make the table of locks long. It is read once, and only now: later claims are on these files.
        elsewhere = world.claims_elsewhere()
        for name, fd in opened.items():
            world.folder.settle(name, fd, elsewhere)
            settled = name == GATE or world.folder.is_settled(name)
            if not settled and elsewhere(name, world.folder.inode(name)):
                tell(f"GPU {labels[name]}: {Reason('file_removed')}; it is nobody else's until that ends")


def _has_own_file(folder: ClaimFolder, uuid: str, inodes: Counter[int]) -> bool:
    """Give a GPU a file that is root's and no other GPU's; return False if that must wait, since it is claimed.

    Who comes before root can make one file with the names of several GPUs: then a claim on one is a claim on all. The
    byte of the GPU shows which of them a claim is for. Root does not take over what others own under two names, and
    opens nothing to all that is shut: it may be a private file that was moved here.
    """
    fd = folder.peek(uuid)
    if fd is None:
        return True  # it is made when it is opened
    file = ClaimFile(fd)
    try:
        facts = os.fstat(fd)
        is_own = facts.st_nlink == 1 or (facts.st_uid == 0 and inodes[facts.st_ino] <= 1)
        if is_own and open_to_all(facts):
            return True
        if file.is_claimed_for(folder.path, uuid):
            return False
        folder.put_anew(uuid)
        return True
    finally:
        file.close()
