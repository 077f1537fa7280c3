"""Describe `/api/v1` as OpenAPI. Only this needs the models of the answers, so only who asks for it loads them."""

import json
import re
from collections.abc import Iterable
from typing import Any, Literal

from pydantic import BaseModel
from pydantic.json_schema import models_json_schema

import fallow
from fallow.interfaces.web import cluster_models, models, recent_models, report_models, series_models
from fallow.interfaces.web.api_routes import Operation
from fallow.interfaces.web.query_keys import REQUIRED, Key

_SCHEMAS = "#/components/schemas/"
_BEARER = "HTTPBearer"
_SCHEME = {"type": "http", "description": "The token of the page; on the socket none is needed.", "scheme": "bearer"}
_ANY_ROUTE = {422: "It does not fit.", 503: "Nothing has been seen yet, or history cannot be read."}
_MODULES = (models, cluster_models, report_models, series_models, recent_models)


def described(operations: Iterable[Operation]) -> bytes:
    """Return the description of all operations, as JSON."""
    listed = list(operations)
    paths: dict[str, dict[str, Any]] = {}
    for operation in listed:
        paths.setdefault(operation.path, {})[operation.method] = _operation(operation)
    about = {
        "title": "fallow",
        "description": "One machine's GPUs: what each does, since when, who holds it, and why.",
        "version": fallow.__version__,
    }
    parts = {"schemas": _schemas(listed), "securitySchemes": {_BEARER: _SCHEME}}
    whole = {"openapi": "3.1.0", "info": about, "paths": paths, "components": parts}
    return json.dumps(whole, separators=(",", ":"), allow_nan=False).encode()


def _schemas(operations: Iterable[Operation]) -> dict[str, Any]:
    """Return the schema of each model that an operation takes or answers with, by its name."""
    found: dict[tuple[type[BaseModel], Literal["validation", "serialization"]], None]
    found = {(models.Problem, "serialization"): None}
    for each in operations:
        if each.answer is not None:
            found[_model(each.answer), "serialization"] = None
        if each.body is not None:
            found[each.body, "validation"] = None
    _, whole = models_json_schema(list(found), ref_template=f"{_SCHEMAS}{{model}}")
    schemas: dict[str, Any] = whole["$defs"]
    return schemas


def _model(name: str) -> type[BaseModel]:
    """Return the model of that name."""
    (found,) = {vars(module)[name] for module in _MODULES if name in vars(module)}
    model: type[BaseModel] = found
    return model


def _operation(operation: Operation) -> dict[str, Any]:
    success: dict[str, Any] = {"description": "Successful Response"}
    if operation.answer is not None:
        success |= _content(operation.answer)
    problems = {**_ANY_ROUTE, **operation.problems}
    answers = {str(code): {"description": why} | _content("Problem") for code, why in problems.items()}
    facts: dict[str, Any] = {
        "summary": operation.summary,
        "operationId": re.sub(r"\W", "_", f"{operation.name}{operation.path}_{operation.method}"),
        "responses": {str(operation.code): success, **answers},
    }
    if operation.keys:
        facts["parameters"] = [_parameter(key, operation.place(key)) for key in operation.keys]
    if operation.body is not None:
        facts["requestBody"] = {"required": True} | _content(operation.body.__name__)
    if operation.guarded:
        facts["security"] = [{_BEARER: []}]
    return facts


def _parameter(key: Key, place: str) -> dict[str, Any]:
    default = {} if key.default is None or key.default is REQUIRED else {"default": key.default}
    about = {} if key.meaning is None else {"description": key.meaning}
    required = key.default is REQUIRED
    return {"name": key.name, "in": place, "required": required, "schema": key.schema | default} | about


def _content(model: str) -> dict[str, Any]:
    return {"content": {"application/json": {"schema": {"$ref": f"{_SCHEMAS}{model}"}}}}
