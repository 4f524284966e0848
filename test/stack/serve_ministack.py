"""Runs ministack, with one thing added: events that come from EC2.

No stand-in sends EC2's state-change events by itself, and ministack refuses
them from callers, as AWS does: sources that begin with "aws." are AWS's own,
and the time of an event is that of its arrival. Tests play EC2, so here
PutEvents takes such sources and keeps the time that an entry names.
"""

import json
import threading

from ministack.app import main
from ministack.core.responses import json_response
from ministack.services import eventbridge

_put_events, _now = eventbridge._put_events, eventbridge._now_ts
_entry = threading.local()


def now_ts():
    return getattr(_entry, "time", None) or _now()


def put_events(data, allow_aws_source=True):
    entries = data.get("Entries", [])
    if not 1 <= len(entries) <= 10:
        return _put_events(data, allow_aws_source=True)
    answers = []
    for entry in entries:
        _entry.time = entry.get("Time")
        try:
            status, headers, body = _put_events({**data, "Entries": [entry]}, allow_aws_source=True)
        finally:
            _entry.time = None
        if status != 200:
            return status, headers, body
        answers.append(json.loads(body))
    return json_response({
        "FailedEntryCount": sum(a["FailedEntryCount"] for a in answers),
        "Entries": [e for a in answers for e in a["Entries"]],
    })


eventbridge._put_events, eventbridge._now_ts = put_events, now_ts
main()
