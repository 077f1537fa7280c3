"""`fallow report --mail`: send the report to the addresses of the config, or print what would be sent."""

import io
import sys

from fallow.actuators.host import notice_process
from fallow.actuators.host.send_notice import PAGE_NAME, without_secrets
from fallow.actuators.process import spawn
from fallow.actuators.process.helpers import Helpers
from fallow.core.errors import FallowError, NotAllTold, WrongUsage
from fallow.core.units import printable
from fallow.engine.history.report import Report
from fallow.engine.machine.inherited_environment import without_gpus
from fallow.engine.machine.world import World
from fallow.interfaces.render import report_text
from fallow.interfaces.stderr import Stderr
from fallow.policies.cost import By

_LONGEST_TITLE = 200


def addresses(world: World) -> tuple[str, ...]:
    """Return where the config sends reports; raise WrongUsage if it names no address."""
    from fallow.engine.config.load import load
    from fallow.engine.config.location import find

    file = find(world.environ)
    urls = () if file is None else load(file).report_urls
    if not urls:
        where = "there is no config" if file is None else f"{printable(file)} names no address"
        raise WrongUsage(
            f"the report cannot be sent: {where}", 'write urls = ["mailto://user:password@host"] under [report]'
        )
    return urls


def send(report: Report, by: By, urls: tuple[str, ...], world: World, voice: Stderr, *, dry_run: bool) -> None:
    """Send the report to all addresses; in a dry run print it. Raise FallowError if one does not take it."""
    from fallow.interfaces.render.report_html import as_html

    text = io.StringIO(newline="")
    report_text.show_table(report, by, text)
    title = printable(f"GPU report: {report_text.machine_in_words(report)}, {report_text.span_in_words(report)}")
    title = title[:_LONGEST_TITLE]
    page = as_html(report, by)
    if dry_run:
        attached = f"with {PAGE_NAME} ({len(page.encode()):,} bytes) attached"
        for url in urls:
            voice.note(f"would send to {without_secrets(url)}, {attached}")
        sys.stdout.write(f"{title}\n\n{text.getvalue()}")
        return
    spawn.keep_the_ends_of_children()
    helpers = Helpers(world.clock.monotonic_s)
    outcomes = notice_process.send(helpers, without_gpus(world.environ), urls, title, text.getvalue(), page)
    for outcome in outcomes:
        if outcome.ok:
            voice.note(f"report sent: {outcome.words}")
    failed = [outcome.words for outcome in outcomes if not outcome.ok]
    if failed:
        kind = FallowError if len(failed) == len(outcomes) else NotAllTold
        raise kind(f"the report was not sent to all addresses: {'; '.join(failed)}")
