"""`fallow doctor --fix`: give the claim folder to root, so that its first owner cannot delete in it."""

import os
from collections.abc import Callable, Iterator
from contextlib import suppress

from fallow.actuators.claims.claims import GATE
from fallow.actuators.claims.folder import FileRefused, folder_path
from fallow.actuators.claims.folder_repair import foreign_file, repair
from fallow.core.errors import FallowError, NotPermitted
from fallow.core.ports import Depth
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
        yield from repair(path, world.clock.wall_s(), dry_run=dry_run)
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
    with suppress(FileRefused):  # launches go on without a gate
        os.close(world.folder.open(GATE))
    for gpu in world.gpu_reader.look(Depth.HOLDERS).gpus:
        try:
            if isinstance(gpu.uuid, str):
                os.close(world.folder.open(gpu.uuid))
        except FileRefused as error:
            tell(f"GPU {gpu.label}: {refused_file(error)}")
