"""Open Bandit Pipeline's feedback of slates as a slate log; obp itself is not needed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa

from piwo.checks import check_kind
from piwo.errors import DataError, UsageError
from piwo.formats.obp import Floats, Numbers, context_in, numbers_in, require_entries, whole_in
from piwo.logs.foreign import TOLERANCE, probabilities
from piwo.logs.options import Logger
from piwo.messages import argument
from piwo.slates.log import SlateLog
from piwo.slates.read import read

__all__ = ["from_obp"]

_NEEDED = ("slate_id", "position", "action", "reward")
_WHOLE, _CASCADE, _ALONE = "pscore", "pscore_cascade", "pscore_item_position"
_TARGET = "evaluation_policy_"


def from_obp(
    feedback: Mapping[str, Any],
    *,
    policies: Mapping[str, Mapping[str, Any]] | None = None,
    position_weights: Sequence[float] | None = None,
    reward_range: tuple[float, float] = (0.0, 1.0),
    logger: Logger | None = None,
) -> SlateLog:
    """Return the slate log of a feedback of Open Bandit Pipeline (obp) with several slots.

    The dictionary has one entry for each slot of each slate, m in all. obp's probabilities become
    columns of the log: with P_l = `pscore_cascade`, the joint probability of the actions down to
    slot l, the probability of an action given those above it is P_l / P_{l-1}, P_0 = 1;
    `pscore_item_position` is the marginal one, and `pscore` that of the slate. Then

    - "standard" is obp's `SlateStandardIPS`, mean over slates of sum_l (pi / pscore) r_l,
    - "cascade" its `SlateRewardInteractionIPS`, with `pscore_cascade`,
    - "independent" its `SlateIndependentIPS`, with `pscore_item_position`.

    Args:
        feedback: `slate_id`, `position` (from 0), `action` (from 0), `reward`, each (m,), in any
            order; one or more of `pscore`, `pscore_cascade`, `pscore_item_position`, each (m,);
            and, if not None, `context` (n, d), a row a slate in the order of their ids, and
            `n_unique_action`. `action_context` and expected rewards are not read.
        policies: name -> what obp's estimators take of a target policy: one or more of
            `evaluation_policy_pscore`, `evaluation_policy_pscore_cascade` and
            `evaluation_policy_pscore_item_position`, each (m,). They become the columns
            "name_slate", "name_above" and "name_marginal" of `slates.FromColumns`.
        position_weights: of the slots; see `slates.read`.
        reward_range: (0, hi), the declared range of the reward of a slot.
        logger: "learning" if the logger learned from earlier rows; "fixed" if not.

    Returns:
        A `SlateLog`, its slates in the order of their ids.

    Raises:
        UsageError: for a dictionary without these entries, and a policy whose columns would have
            the names of the logging policy's: "p".
        DataError: for positions that are not 0, 1, ... once in each slate, probabilities outside of
            [0, 1], joint ones that rise from slot to slot, and those of a slate that differ.

    Source: the documentation of obp 0.5, "obp.dataset" and "obp.ope", estimators of slates.

    >>> feedback = {
    ...     "slate_id": [0, 0, 1, 1],
    ...     "position": [0, 1, 0, 1],
    ...     "action": [2, 0, 1, 2],
    ...     "reward": [1, 0, 0, 1],
    ...     "pscore_cascade": [0.5, 0.25, 0.5, 0.125],
    ... }
    >>> new = {"evaluation_policy_pscore_cascade": [0.25, 0.25, 0.5, 0.5]}
    >>> log = from_obp(feedback, policies={"new": new})
    >>> import piwo
    >>> piwo.slates.evaluate(log, piwo.slates.FromColumns("new_above"), estimator="cascade").value
    2.25
    """
    if policies is not None:
        check_kind("policies", policies, Mapping)
    require_entries(feedback, _NEEDED, (_WHOLE, _CASCADE, _ALONE), "slate feedback")
    rows = _Rows.of(feedback)
    table: dict[str, Any] = {
        "slate": rows.lists(
            whole_in(feedback, "action", rows.count, feedback.get("n_unique_action"))
        ),
        "rewards": rows.lists(numbers_in(feedback, "reward", rows.count)),
    }
    logged = _columns(feedback, "", "", rows)
    table |= {f"p_{role}": values for role, values in logged.items()}
    for name, given in (policies or {}).items():
        for role, values in _target(given, name, rows).items():
            column = f"{name}_{role}"
            if column in table:
                raise UsageError(
                    f"{argument('policies')} has the name {name!r}, whose column {column!r} is "
                    "that of the logging policy; give it another name"
                )
            table[column] = values
    context = {}
    for i, values in enumerate(context_in(feedback, len(rows.starts) - 1)):
        context[f"x{i}"] = values
    known = feedback.get("n_unique_action")
    log = read(
        pa.table({**table, **context}),
        rewards="rewards",
        propensities="p_above" if "above" in logged else None,
        marginals="p_marginal" if "marginal" in logged else None,
        slate_propensity="p_slate" if "slate" in logged else None,
        context=tuple(context),
        actions=None if known is None else range(int(known)),
        position_weights=position_weights,
        reward_range=reward_range,
        logger=logger,
    )
    return replace(log, source=replace(log.source, name="the slate feedback"))  # type: ignore[type-var]


@dataclass(frozen=True)
class _Rows:
    """The slots of the slates: which entries of the feedback they are, slate after slate."""

    order: Numbers
    """(m,) entries, by slate and position."""
    starts: Numbers
    """(n + 1,) where each slate begins in `order`."""
    ids: Floats
    """(n,) of the slates."""

    @classmethod
    def of(cls, feedback: Mapping[str, Any]) -> _Rows:
        """Return those of a feedback.

        Raises:
            DataError: unless the positions of each slate are 0, 1, ..., each once.
        """
        count = len(np.atleast_1d(np.asarray(feedback["slate_id"])))
        slate = numbers_in(feedback, "slate_id", count)
        position = whole_in(feedback, "position", count, None)
        order = np.lexsort((position, slate))
        ids, first = np.unique(slate[order], return_index=True)
        starts = np.append(first, count).astype(np.int64)
        expected = np.arange(count) - np.repeat(starts[:-1], np.diff(starts))
        wrong = position[order] != expected
        if wrong.any():
            at = int(np.argmax(wrong))
            raise DataError(
                f"slate {slate[order][at]:.16g} has the position {position[order][at]} where "
                f"{expected[at]} was expected; each slate needs the positions 0, 1, ..., each once"
            )
        return cls(order, starts, ids)

    @property
    def count(self) -> int:
        """m, the entries of the feedback."""
        return len(self.order)

    @property
    def is_first(self) -> Any:
        """(m,) whether an entry, in order, is the first slot of its slate."""
        found = np.zeros(self.count, np.bool_)
        found[self.starts[:-1]] = True
        return found

    def lists(self, values: Any) -> pa.Array:
        """Return values (m,) of the feedback as a list for each slate."""
        return self.listed(values[self.order])

    def listed(self, values: Any) -> pa.Array:
        """Return values (m,) in order as a list for each slate."""
        return pa.LargeListArray.from_arrays(self.starts, pa.array(values))

    def name(self, at: int) -> str:
        """Return the slate of an entry, in order, for messages."""
        place = int(np.searchsorted(self.starts, at, side="right")) - 1
        return f"slate {self.ids[place]:.16g}"


def _target(given: Any, name: str, rows: _Rows) -> dict[str, Any]:
    """Return the columns of a target policy by role."""
    known = [f"{_TARGET}{x}" for x in (_WHOLE, _CASCADE, _ALONE)]
    usable = isinstance(given, Mapping) and any(given.get(x) is not None for x in known)
    if not usable or any(x not in known for x in given):
        raise UsageError(
            f"{argument('policies')}: {name!r} is {_keys(given)}, expected the probabilities of "
            f"its actions by name: {', '.join(map(repr, known))}"
        )
    return _columns(given, _TARGET, f"policy {name!r}: ", rows)


def _keys(given: Any) -> str:
    if isinstance(given, Mapping):
        return f"a mapping with {', '.join(map(repr, given)) or 'nothing'}"
    return type(given).__name__


def _columns(given: Mapping[str, Any], prefix: str, owner: str, rows: _Rows) -> dict[str, Any]:
    """Return the columns of obp's probabilities of the shown actions, by role.

    Args:
        given: the arrays.
        prefix: of their names.
        owner: whose they are, for messages.
        rows: of the feedback.
    """
    found: dict[str, Floats] = {}
    for name in (_WHOLE, _CASCADE, _ALONE):
        if given.get(prefix + name) is not None:
            giver = f"{owner}{prefix}{name}"
            found[name] = probabilities(given[prefix + name], rows.count, giver)[rows.order]
    columns: dict[str, Any] = {}
    if _ALONE in found:
        columns["marginal"] = rows.listed(found[_ALONE])
    if _CASCADE in found:
        columns["above"] = rows.listed(_above(found[_CASCADE], f"{owner}{prefix}{_CASCADE}", rows))
    if _WHOLE in found:
        whole = _of_slates(found, f"{owner}{prefix}", rows)
        if _CASCADE not in found:
            columns["slate"] = whole
    return columns


def _above(joint: Floats, name: str, rows: _Rows) -> Floats:
    """Return the probability of each action given those above it, (m,) in order.

    Args:
        joint: (m,) P_l, the joint probability of the actions down to each slot.
        name: of it.
        rows: of the feedback.
    """
    before = np.where(rows.is_first, 1.0, np.roll(joint, 1))
    rises = joint > before * (1.0 + TOLERANCE)
    if rises.any():
        at = int(np.argmax(rises))
        raise DataError(
            f"{name} rises from {before[at]:.6g} to {joint[at]:.6g} in {rows.name(at)}, expected "
            "the joint probability of the actions down to each position"
        )
    # what is below an impossible action has probability 0, too
    return np.divide(joint, before, out=np.zeros_like(joint), where=before > 0)


def _of_slates(found: Mapping[str, Floats], owner: str, rows: _Rows) -> Floats:
    """Return the probability of each slate, (n,), after comparing what is said of it.

    Args:
        found: what is said, by obp's names of the logging policy.
        owner: how the names begin, for messages.
        rows: of the feedback.
    """
    values, name = found[_WHOLE], f"{owner}{_WHOLE}"
    whole = values[rows.starts[:-1]]
    in_each = np.repeat(whole, np.diff(rows.starts))
    differs = np.abs(values - in_each) > TOLERANCE * in_each
    if differs.any():
        at = int(np.argmax(differs))
        raise DataError(
            f"{name} is {in_each[at]:.6g} and {values[at]:.6g} in {rows.name(at)}, expected the "
            "probability of the whole slate in each of its rows"
        )
    if _CASCADE in found:
        last = rows.starts[1:] - 1
        product = found[_CASCADE][last]
        differs = np.abs(product - whole) > TOLERANCE * np.maximum(product, whole)
        if differs.any():
            place = int(np.argmax(differs))
            raise DataError(
                f"{name} is {whole[place]:.6g} and {owner}{_CASCADE} of the last position "
                f"{product[place]:.6g} in {rows.name(last[place])}, expected the same; one of the "
                "two is wrong"
            )
    return whole
