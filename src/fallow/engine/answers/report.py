"""Make a report of what the GPUs did: from the daemon's history, else from the one in this user's folder."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from fallow.core.errors import FallowError
from fallow.core.money import Prices
from fallow.core.value import replace
from fallow.engine.answers.asker import Asker
from fallow.engine.history.reader import HistoryReader, open_history
from fallow.engine.history.report import Report
from fallow.engine.machine.local_zone import LocalZone
from fallow.engine.machine.world import World

TYPE_CHECKING = False
if TYPE_CHECKING:
    from fallow.engine.client.daemon_client import DaemonClient, RemoteHistory


@contextmanager
def open_report(asker: Asker, since_s: float, until_s: float, given: Prices) -> Iterator[Report]:
    """Yield a report from one time to another, which reads history for as long as it is open.

    Without prices in `given`, those in force are taken; without a currency, theirs.
    """
    world, daemon = asker.world, asker.daemon
    folder = world.state_folder
    past: HistoryReader | RemoteHistory | None = daemon.past()
    prices = given
    if not given.currency:
        # Hours that the daemon told are worth what its config says, so it is given as long to tell that.
        in_force = prices_in_force(world, daemon, asker.note, patiently=past is not None)
        prices = replace(given, currency=in_force.currency) if given.given else in_force
    where = "the history of the daemon"
    if past is None:
        past, where = open_history(folder), folder
        if daemon.trouble is not None:
            _tell_trouble(asker, daemon.trouble, folder, found=past is not None)
    try:
        source = f"the history in {where}" if where == folder else where
        made_s = world.clock.wall_s()
        report = Report(past, since_s, until_s, prices, LocalZone(), world.viewer, source, made_s)
        if not report.intervals:
            what = "no history" if past is None else "nothing of that time"
            asker.note(f"there is {what} in {where}; `fallow up` records it while it runs")
        yield report
    finally:
        if past is not None:
            past.close()


def prices_in_force(
    world: World, daemon: "DaemonClient | None", say: Callable[[str], None], *, patiently: bool = False
) -> Prices:
    """Return the prices of the daemon's config, else of the user's; none if neither has any."""
    told = None if daemon is None else daemon.prices(patiently=patiently)
    if told is None and patiently:
        say("the daemon did not tell its prices; those of the config here count, if it has any")
    if told is not None and told.given:
        return told
    try:
        from fallow.engine.config.location import find

        file = find(world.environ, others=True)
        if file is None:
            return Prices()
        from fallow.engine.config.load import load

        return load(file).machine.all_prices
    except (ModuleNotFoundError, FallowError) as error:
        say(f"without the prices of a config: {error}")
        return Prices()


def _tell_trouble(asker: Asker, trouble: str, folder: str, *, found: bool) -> None:
    """Note that the daemon did not answer, which is an error if no history was found: the daemon may have some."""
    sentence = f"the daemon could not be asked for its history: {trouble}"
    if not found:
        raise FallowError(f"{sentence}; try again later")
    asker.note(f"{sentence}; this is what {folder} has")
