"""Columns that look like ids of persons or sessions, by their names.

Rows of one person depend on each other, and intervals that take them for independent rows are too
narrow. Units are declared (`piwo.read(unit=)`). If they were not, results name such columns.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

import pyarrow as pa

from piwo.logs.columns import Columns
from piwo.messages import Note, argument
from piwo.sources.source import type_family

__all__ = ["is_id", "is_person", "is_thing", "undeclared_units"]

_PERSON = re.compile(
    "account|buyer|caller|client|contact|cookie|customer|device|donor|driver|employee|guest|"
    "household|learner|member|patient|person|player|profile|reader|rider|session|shopper|student|"
    "subject|subscriber|user|viewer|visit|visitor|worker"
)
_ALONE = re.compile("msisdn|uid|user|visitor")
"""Other words may, alone, also name kinds or flags, such as mobile and desktop, or a student."""
_ID = re.compile("guid|hash|id|key|no|nr|num|number|uuid")
_THING = re.compile(
    "action|ad|arm|article|banner|campaign|category|city|content|country|creative|decision|event|"
    "experiment|impression|item|language|log|message|model|movie|offer|page|policy|position|"
    "product|query|record|region|request|row|slot|song|state|template|treatment|variant|video|"
    "zip|zone"
)
"""What is chosen or shown, what there are few of, and rows themselves."""
_NAMED = 3
"""Columns that a note names."""


def is_person(name: str) -> bool:
    """Whether a column's name is that of an id of a person, a household or a session.

    It is a word for one (user, customer, visitor, session, member, patient, device, account,
    household, client, uid, ...), or such a word followed by one for an id (id, uuid, key, hash,
    number, ...), in any spelling.

    >>> [is_person(x) for x in ("user", "userId", "hashed_customer_id", "user_age", "store_id")]
    [True, True, True, False, False]
    """
    words = _words(name)
    if words[-1:] in (["uid"], ["msisdn"]):
        return True
    if len(words) == 1:
        return bool(_PERSON.fullmatch(words[0]))
    return _is_numbered(words) and any(_PERSON.fullmatch(word) for word in words)


def is_id(name: str) -> bool:
    """Whether a name of several words ends in id, uuid or guid.

    >>> [is_id(x) for x in ("store_id", "id", "orderNumber")]
    [True, False, False]
    """
    words = _words(name)
    return _is_numbered(words) and words[-1] in ("id", "uuid", "guid")


def is_thing(name: str) -> bool:
    """Whether a word of a name is one for what is chosen or shown, or for one row.

    >>> [is_thing(x) for x in ("item_id", "requestId", "store_id")]
    [True, True, False]
    """
    return any(_THING.fullmatch(word) for word in _words(name))


def undeclared_units(columns: Columns, schema: Iterable[pa.Field]) -> tuple[Note, ...]:
    """Return the note on columns that look like ids of persons, of a log without declared units.

    No row is read. Words that may name kinds or flags (device, customer, student, ...) count only
    if a word for an id follows. Columns with another role than context are left out.

    >>> (note,) = undeclared_units(Columns(), [pa.field("user_id", pa.int64())])
    >>> note.kind
    'undeclared-units'
    >>> undeclared_units(Columns(), [pa.field("device", pa.string())])
    ()
    """
    if columns.unit is not None:
        return ()
    found: list[str] = []
    taken = {*columns.scalars(), columns.propensities}
    for column in schema:
        known = type_family(column.type) in ("text", "integer", "number")
        person = is_person(column.name) and not _is_kind(column.name)
        if known and person and column.name not in taken:
            found.append(column.name)
    if not found:
        return ()
    named = ", ".join(repr(name) for name in found[:_NAMED])
    looks = f"column {named} looks like the id of a user or session"
    if len(found) > 1:
        looks = f"columns {named} look like ids of users or sessions"
    return (
        Note(
            f"assumes independent rows, but {looks}; if one has several rows, bounds that take "
            f"rows for independent are invalid: read the log with {argument('unit', found[0])}",
            kind="undeclared-units",
        ),
    )


def _is_kind(name: str) -> bool:
    words = _words(name)
    return len(words) == 1 and not _ALONE.fullmatch(words[0])


def _is_numbered(words: Sequence[str]) -> bool:
    return len(words) > 1 and bool(_ID.fullmatch(words[-1]))


def _words(name: str) -> list[str]:
    """Return the words of a name in lower case; "userid" is two.

    >>> _words("visitorID"), _words("User_Key"), _words("userid")
    (['visitor', 'id'], ['user', 'key'], ['user', 'id'])
    """
    words = [x.lower() for x in re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+", name)]
    if words and words[-1].endswith("id") and _PERSON.fullmatch(words[-1][:-2]):
        words[-1:] = [words[-1][:-2], "id"]
    return words
