"""Runs a block of Python one statement at a time, and writes down what each gave and left behind.

    python step_by_step.py BLOCK RECORD

The record is a JSON list: for each statement its source, its value if it is text, CUDA_VISIBLE_DEVICES after it, and
at its end the variables of the block that JSON can hold.
"""

import ast
import json
import os
import pathlib
import sys
from typing import Any


def main(block: str, record: str) -> None:
    names: dict[str, Any] = {"__name__": "__main__"}
    steps = []
    for node in ast.parse(pathlib.Path(block).read_text()).body:
        value = None
        if isinstance(node, ast.Expr):
            value = eval(compile(ast.Expression(node.value), block, "eval"), names)
        else:
            exec(compile(ast.Module([node], []), block, "exec"), names)
        gave = value if isinstance(value, str) else None
        steps.append({"does": ast.unparse(node), "gave": gave, "cvd": os.environ.get("CUDA_VISIBLE_DEVICES")})
    kept = {name: value for name, value in names.items() if isinstance(value, list)}
    pathlib.Path(record).write_text(json.dumps({"steps": steps, "kept": kept}))


if __name__ == "__main__":
    main(*sys.argv[1:])
