"""The only file that asks servers to let go of their GPUs, and to take them back.

Each call is sent once. Whether it had an effect is asked afterwards: an answer alone shows little.
"""

import json

from fallow.core.findings import Outcome
from fallow.core.http import Endpoint, Http, HttpAnswer
from fallow.core.units import printable
from fallow.core.unknown import Unknown

_SLEEPS_WITHIN_S = 120.0  # a vLLM answers when its weights are in host memory
_WAKES_WITHIN_S = 120.0
_UNLOADS_WITHIN_S = 30.0
_JSON = {"Content-Type": "application/json"}


def have_vllm_sleep(http: Http, to: Endpoint) -> Outcome:
    """Have a vLLM move its weights to host memory and drop its cache."""
    return _outcome(http(to, "POST", "/sleep?level=1", {}, _SLEEPS_WITHIN_S), "vLLM sleeps")


def have_vllm_wake(http: Http, to: Endpoint) -> Outcome:
    """Have a vLLM move its weights back."""
    return _outcome(http(to, "POST", "/wake_up", {}, _WAKES_WITHIN_S), "vLLM is awake")


def have_ollama_unload(http: Http, to: Endpoint, model: str) -> Outcome:
    """Have an ollama unload a model; it loads it again at the next request for it."""
    body = json.dumps({"model": model, "keep_alive": 0, "stream": False}).encode()
    return _outcome(http(to, "POST", "/api/generate", _JSON, _UNLOADS_WITHIN_S, body), f"ollama unloads {model}")


def _outcome(answer: HttpAnswer | Unknown, done: str) -> Outcome:
    if isinstance(answer, Unknown):
        return Outcome(False, answer.why)
    if answer.status in range(200, 300):
        return Outcome(True, printable(done))
    # Everybody reads the outcome, and what a user's own server says is not for all.
    return Outcome(False, f"the server answered {answer.status}")
