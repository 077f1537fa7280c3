"""The claim folder of a daemon that runs as root must be root's."""

import os
from collections.abc import Callable

from fallow.actuators.claims.folder import FileRefused, to_give_it_to_root
from fallow.core.errors import NotPermitted
from fallow.core.ports import Depth
from fallow.engine.allocate.refused import refused_file
from fallow.engine.machine.world import World
from fallow.readers.accounts import user_name


def demand_root_folder(world: World, tell: Callable[[str], None]) -> None:
    """Refuse a claim folder that is not root's, and make each GPU's file, for a daemon of root.

    The owner of the folder could delete protections. A file that cannot be used is reported. Once all of them exist,
    who fills the disk keeps nobody from a GPU.
    """
    if os.geteuid() != 0:
        return
    uid = world.folder.owner_uid
    if uid != 0:
        can = f"{world.folder.path} is {user_name(uid)}'s, who can delete the claims and protections of others"
        raise NotPermitted(f"the claim folder {can}; {to_give_it_to_root(world.folder.path)}")
    for gpu in world.gpu_reader.look(Depth.HOLDERS).gpus:
        try:
            if isinstance(gpu.uuid, str):
                os.close(world.folder.open(gpu.uuid))
        except FileRefused as error:
            tell(f"GPU {gpu.label}: {refused_file(error)}")
