"""What two servers' replies have in common: statuses, types, keys; never ids, times or texts."""

from __future__ import annotations

import json


def shape(value):
    """Return the shape of a JSON value: keys and types; a list has the shapes of its items."""
    if isinstance(value, dict):
        return {key: shape(item) for key, item in value.items()}
    if isinstance(value, list):
        return [shape(item) for item in value]
    if value is None or isinstance(value, bool):
        return type(value).__name__
    return "number" if isinstance(value, int | float) else type(value).__name__


def fits(ours, theirs, where="$"):
    """Return where our shape lacks something of theirs, or has it otherwise; nothing if it fits."""
    if "NoneType" in (ours, theirs):
        return []
    if isinstance(theirs, dict):
        if not isinstance(ours, dict):
            return [f"{where}: {ours} instead of an object"]
        missing = [f"{where}.{key}: missing" for key in theirs if key not in ours]
        both = [key for key in theirs if key in ours]
        return missing + [
            fault for key in both for fault in fits(ours[key], theirs[key], f"{where}.{key}")
        ]
    if isinstance(theirs, list):
        if not isinstance(ours, list):
            return [f"{where}: {ours} instead of a list"]
        return fits(ours[0], theirs[0], f"{where}[]") if ours and theirs else []
    return [] if ours == theirs else [f"{where}: {ours} instead of {theirs}"]


def body_of(answer):
    """Return a reply's body as JSON values; a stream as the list of its lines."""
    if answer.headers.get("content-type", "").startswith("application/x-ndjson"):
        return [json.loads(line) for line in answer.text.splitlines()]
    return answer.json() if answer.content else None


def without_input(body):
    """Return a 422 of LightRAG's without the refused input that it repeats."""
    if not isinstance(body, dict) or not isinstance(body.get("detail"), list):
        return body
    faults = []
    for fault in body["detail"]:
        rule = {k: v for k, v in fault.get("ctx", {}).items() if isinstance(v, str | int)}
        kept = {key: fault[key] for key in ("type", "loc", "msg")}
        faults.append(kept | ({"ctx": rule} if rule else {}))
    return {**body, "detail": faults}
