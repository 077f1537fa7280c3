"""What a Prometheus answers about GPUs of dcgm-exporter, made without one: for many GPUs, and for broken answers."""

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any
from urllib.parse import parse_qs, urlsplit

from fallow.core.http import HttpAnswer
from fallow.core.unknown import Unknown

NOW_S = 1_800_000_000.0
Body = dict[str, Any]
Break = Callable[[str, Body], object]


def gpus(nodes: int, each: int = 8) -> list[dict[str, str]]:
    """Return the labels of the GPUs of some nodes."""
    return [
        {
            "job": "dcgm",
            "instance": f"10.1.{node // 256}.{node % 256}:9400",
            "Hostname": f"node-{node:05}",
            "UUID": f"GPU-{node:08x}-{gpu:04x}-4000-8000-000000000000",
            "gpu": str(gpu),
        }
        for node in range(nodes)
        for gpu in range(each)
    ]


class FakePrometheus:
    """Answers the queries of one look: each GPU has some load, in per cent."""

    def __init__(
        self,
        found: Sequence[Mapping[str, str]],
        load: float = 0.0,
        spoil: Break | None = None,
        metric: str = "DCGM_FI_DEV_GPU_UTIL",
    ) -> None:
        """`spoil` gets the kind of each query and its answer, and returns what is answered instead."""
        self._metric = metric
        self._gpus = found
        self._load = load
        self._spoil = spoil
        self.bytes = 0

    def __call__(self, method: str, target: str, headers: Mapping[str, str], limit_s: float) -> HttpAnswer | Unknown:
        """Answer one query."""
        kind, result = self._answer(parse_qs(urlsplit(target).query)["query"][0])
        body: Any = {"status": "success", "data": result}
        if self._spoil is not None:
            body = self._spoil(kind, body)
        if isinstance(body, HttpAnswer):
            return body
        raw = json.dumps(body).encode()
        self.bytes += len(raw)
        return HttpAnswer(200, raw)

    def _answer(self, query: str) -> tuple[str, Body]:
        if query == "time()":
            return "time", {"resultType": "scalar", "result": [NOW_S, str(NOW_S)]}
        util = self._metric
        if query.startswith("count("):
            return "there", self._series([{}] if "DCGM" in query else [], len(self._gpus))
        if "up[" in query:
            targets = {each["instance"]: {"job": each["job"], "instance": each["instance"]} for each in self._gpus}
            return "scrapes", self._series(targets.values(), 5)
        if f"timestamp({util})" in query:
            return "listed", self._series(({**each, "modelName": "NVIDIA H100"} for each in self._gpus), NOW_S - 3)
        if f"count_over_time({util}[" in query:
            return "counted", self._series(self._gpus, 5)
        if f"max_over_time({util}[" in query:
            return "highest", self._series(self._gpus, self._load)
        if "FB_USED" in query or "POWER_USAGE" in query:
            return "figure", self._series(self._gpus, 400)
        return "nothing", self._series((), 0)

    def _series(self, found: Any, number: float) -> Body:
        result = [{"metric": dict(each), "value": [NOW_S, str(number)]} for each in found]
        return {"resultType": "vector", "result": result}
