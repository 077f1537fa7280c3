"""What `fallow doctor --fix` does: the claim folder becomes root's, and safe from whoever made it first."""

import os
from collections.abc import Callable, Iterator

from fallow.actuators.claims.folder import FileRefused, folder_path
from fallow.actuators.claims.folder_repair import looks_like_ours, repair
from fallow.core.errors import FallowError, NotPermitted
from fallow.core.ports import Depth
from fallow.engine.allocate.pick import refused_file
from fallow.engine.machine.world import World
from fallow.readers.proc import user_name


def fix(world: World, *, dry_run: bool) -> Iterator[str]:
    """Each deed as a sentence, told before it is done; NotPermitted for who is not root."""
    path = folder_path(world.environ)
    if os.geteuid() != 0 and not dry_run:
        raise NotPermitted(f"only root can put {path} right; run: sudo fallow doctor --fix")
    if not looks_like_ours(path):
        raise NotPermitted(f"{path} has files that are not fallow's, so it is left alone; name another folder")
    try:
        yield from repair(path, world.clock.wall_s(), dry_run=dry_run)
    except OSError as error:
        raise FallowError(f"{path} cannot be put right: {error.strerror}") from None


def own_the_folder(world: World, tell: Callable[[str], None]) -> None:
    """For a daemon of root: the folder must be root's, and each GPU's file should be, before anybody else makes it.

    Whoever owns the folder can take protections away, so that is refused; a file that is not fit is told.
    """
    if os.geteuid() != 0:
        return
    uid = world.folder.owner_uid
    if uid != 0:
        can = f"{world.folder.path} is {user_name(uid)}'s, who can take away the claims and protections of others"
        raise NotPermitted(f"the claim folder {can}; put that right first: fallow doctor --fix")
    for gpu in world.gpu_reader.look(Depth.GLANCE).gpus:
        try:
            if isinstance(gpu.uuid, str):
                os.close(world.folder.open(gpu.uuid))
        except FileRefused as error:
            tell(f"GPU {gpu.label}: {refused_file(error)}")
