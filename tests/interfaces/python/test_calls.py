"""fallow in Python programs."""

import os
import subprocess
import sys
import textwrap
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

import pytest

import fallow as library
from tests.conftest import Fallow
from tests.places import LIMIT_S


def test_gpus_are_frozen_values_with_their_activity(here: Fallow) -> None:
    gpus = library.gpus(simulate="3xA100")
    assert [gpu.activity for gpu in gpus] == [library.Activity.FREE] * 3
    with pytest.raises(AttributeError, match="frozen"):
        gpus[0].index = 5  # type: ignore[misc]
    assert isinstance(gpus[0].power_w, library.Unknown)


def test_pick_gives_gpus_and_raises_with_reasons(here: Fallow) -> None:
    (gpu,) = library.pick(name="a100", simulate="2xA100")
    assert gpu.index in (0, 1)
    with pytest.raises(library.WrongUsage):
        library.pick(5, simulate="2xA100")
    with library.claim(gpus=0, simulate="2xA100"), pytest.raises(library.NotEnoughGpus) as caught:
        library.pick(gpus=[0], simulate="2xA100")
    assert set(caught.value.refused) == {"0", "1"}
    assert str(caught.value).splitlines()[1].startswith("GPU 0: claimed by "), "it says why each was refused"


def test_a_claim_holds_inside_the_block_and_not_after_it(here: Fallow) -> None:
    with library.claim(2, simulate="2xH100") as gpus:
        assert [gpu.index for gpu in gpus] == [0, 1]
        assert here("pick", "--simulate=2xH100").returncode == 75
        assert library.environment(gpus)["CUDA_VISIBLE_DEVICES"] == f"{gpus[0].uuid},{gpus[1].uuid}"
    assert here("pick", "--simulate=2xH100").returncode == 0


def test_a_claim_without_a_block_holds_at_once_and_until_it_is_released(here: Fallow) -> None:
    claimed = library.claim(2, simulate="2xH100")
    assert [gpu.index for gpu in claimed.gpus] == [0, 1]
    assert repr(claimed) == "<ClaimedGpus 0, 1>"
    assert here("pick", "--simulate=2xH100").returncode == 75
    claimed.release()
    claimed.release()
    assert repr(claimed) == "<ClaimedGpus 0, 1 (released)>"
    assert ">released</caption>" in claimed._repr_html_(), "a notebook shows the table only"
    assert here("pick", "--simulate=2xH100").returncode == 0
    with pytest.raises(library.WrongUsage, match="was released"), claimed:
        pass


def test_a_claim_sets_the_environment_only_if_asked_and_restores_it(
    here: Fallow, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CUDA_DEVICE_ORDER", "FASTEST_FIRST")
    with library.claim(simulate="2xH100"):
        assert os.environ["CUDA_DEVICE_ORDER"] == "FASTEST_FIRST"
    with library.claim(simulate="2xH100", set_environment=True) as gpus:
        assert {name: os.environ[name] for name in library.environment(gpus)} == library.environment(gpus)
    assert os.environ["CUDA_DEVICE_ORDER"] == "FASTEST_FIRST"
    assert "CUDA_VISIBLE_DEVICES" not in os.environ


def test_a_claim_that_no_variable_has_any_more_can_be_found_and_released(here: Fallow) -> None:
    library.claim(simulate="1xH100")
    with pytest.raises(library.NotEnoughGpus):
        library.pick(simulate="1xH100")
    (lost,) = library.claimed()
    lost.release()
    assert lost.is_released
    assert library.claimed() == ()
    library.pick(simulate="1xH100")


def test_a_forked_process_keeps_the_claim_and_ends_it_only_for_itself(fallow: Fallow) -> None:
    program = textwrap.dedent("""
        import os, fallow

        def is_claimed():
            try:
                return not fallow.pick(simulate="1xH100")
            except fallow.NotEnoughGpus:
                return True

        claimed = fallow.claim(simulate="1xH100")
        child = os.fork()
        if not child:
            claimed.release()
            os._exit(not is_claimed())
        assert os.waitpid(child, 0)[1] == 0, "the release of a child ends nothing"
        assert is_claimed()
        claimed.release()
        assert not is_claimed()
    """)
    done = subprocess.run(
        [sys.executable, "-c", program], env=fallow.environ, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_watching_yields_sights(here: Fallow) -> None:
    statuses = library.watch(every=0.01, simulate="1xH100")
    assert next(statuses).gpus[0].for_s == 0
    assert next(status for status in statuses if status.gpus[0].for_s), "on a busy machine some looks are too late"
    statuses.close()


def test_without_a_driver_the_error_says_so(driverless: Fallow) -> None:
    asks = "import fallow\ntry:\n    fallow.gpus()\nexcept fallow.NoDriver as error:\n    print(error)"
    words = [sys.executable, "-c", asks]
    done = subprocess.run(words, env=driverless.environ, capture_output=True, text=True, timeout=LIMIT_S, check=False)
    assert "no NVIDIA driver" in done.stdout, done.stderr


TAKES_GPUS: tuple[tuple[dict[str, Any], type[Exception]], ...] = (
    ({"n": "2"}, TypeError),
    ({"n": 0}, ValueError),
    ({"gpus": [0, None]}, TypeError),
    ({"gpus": "moon"}, ValueError),
    ({"max_util": 5}, ValueError),
    ({"max_util": float("nan")}, ValueError),
    ({"min_free": "40"}, ValueError),
    ({"order": "worst"}, ValueError),
    ({"wait_s": -1}, ValueError),
    ({"simulate": 4}, TypeError),
)


@pytest.mark.parametrize(
    ("call", "given", "kind"),
    [
        *((call, given, kind) for call in (library.pick, library.claim) for given, kind in TAKES_GPUS),
        (library.protect, {"for_s": "2h"}, TypeError),
        (library.protect, {"for_s": 10**12}, ValueError),
        (library.protect, {"for_s": 1, "subject": "moon"}, ValueError),
        (library.idle, {"for_s": -1}, ValueError),
        (library.idle, {"unless": "moon"}, ValueError),
        (library.why, {"subject": 55}, ValueError),
        (library.report, {"since_s": 60, "until_s": 60}, ValueError),
        (library.report, {"price": "moon"}, ValueError),
        (library.status, {"gpus": "moon"}, ValueError),
    ],
)
def test_wrong_arguments_raise_what_python_has_for_them_with_a_sentence(
    here: Fallow, call: Callable[..., Any], given: dict[str, Any], kind: type[Exception]
) -> None:
    with pytest.raises((TypeError, ValueError)) as caught, ExitStack() as stack:
        stack.enter_context(call(**given))
    assert isinstance(caught.value, kind), caught.value
    sentence = str(caught.value)
    assert sentence.isprintable()
    assert any(name in sentence or str(value) in sentence for name, value in given.items()), sentence
