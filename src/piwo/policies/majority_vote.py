"""The action that most of several policies take."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, final

import numpy as np

from piwo.checks import check_kind, check_listed
from piwo.errors import UsageError
from piwo.logs.batch import Floats
from piwo.logs.eligible import Eligible
from piwo.messages import argument
from piwo.policies.blocks import Codes, row_blocks, take
from piwo.policies.linear import best
from piwo.policies.policy import DeterministicPolicy, Policy
from piwo.policies.restricted import highest, taken
from piwo.policies.state import State

__all__ = ["MajorityVote"]

_MOST = 32
"""Members of a vote: their weights for ties are exact in float64."""


@final
class MajorityVote(DeterministicPolicy):
    """pi(x) = argmax_a sum_i (1 + 2^-(i+2)) pi_i(a | x), for the members i = 0, 1, ...

    The action that most members take, if each takes one action in a context; of equal ones, that of
    the earliest member. A member that draws its actions splits its vote. A vote of learners of
    different kinds errs less than each of them if they err in different contexts.

    Args:
        members: 1 to 32 policies with the same actions and, if they use the context, the same
            features.

    Raises:
        UsageError: for another number of members, or members that do not fit together.

    >>> from piwo.policies.linear import LinearGreedy
    >>> up, down = (LinearGreedy([[x], [-x]], [0.0, 0.0], ["a", "b"]) for x in (1.0, -1.0))
    >>> MajorityVote([up, down, up]).act([[2.0], [-3.0]]).actions.tolist()
    ['a', 'b']
    """

    kind: ClassVar[str] = "majority-vote"

    def __init__(self, members: Sequence[Any]) -> None:
        check_listed("members", members)
        if not 1 <= len(members) <= _MOST:
            raise UsageError(
                f"{argument('members')} holds {len(members)} policies, expected 1 to {_MOST}"
            )
        for one in members:
            check_kind("a member", one, Policy, " of piwo.policies")
            if not one.gives_full_distribution:
                raise UsageError(
                    f"a {one.kind} policy is known on logged actions alone, so it cannot vote; "
                    "leave it out"
                )
        self.members: tuple[Policy, ...] = tuple(members)
        first = self.members[0]
        if any(one.listed != first.listed for one in self.members):
            raise UsageError(
                "the members of a vote have different actions; learn them from one log"
            )
        self.listed = first.listed
        looking = [one for one in self.members if one.needs_context]
        if looking:
            one = looking[0]
            if any(x.features != one.features or x.width != one.width for x in looking):
                raise UsageError(
                    "the members of a vote look at different features; learn them from one log"
                )
            self.features, self.width = one.features, one.width

    def __repr__(self) -> str:
        return f"MajorityVote({', '.join(map(repr, self.members))})"

    @property
    def parts(self) -> tuple[Policy, ...]:
        """The members."""
        return self.members

    def decide(self, context: Floats | None, n: int) -> Codes:
        """Return the action with the most votes in each row, (n,) codes."""
        codes = np.empty(n, np.int32)
        for block in row_blocks(n, len(self.actions)):
            rows = block.stop - block.start
            votes = np.zeros((rows, len(self.actions)))
            for i, one in enumerate(self.members):
                # 1/4, 1/8, ...: ties go to the earliest member; whole votes outweigh these
                weight = 1.0 + 2.0 ** -(i + 2)
                votes += weight * one.distribution(take(context, block), rows)
            codes[block], _ = best(votes, block.start)
        return codes

    def within(self, context: Floats | None, eligible: Eligible) -> Floats:
        """Return 1 for the eligible action with the most votes of the restricted members, (m,)."""
        votes = np.zeros(len(eligible.codes))
        for i, one in enumerate(self.members):
            votes += (1.0 + 2.0 ** -(i + 2)) * one.within(context, eligible)
        return taken(highest(votes, eligible), eligible)

    def state(self) -> State:
        """Return the members."""
        return State(parts=self.members)

    @classmethod
    def from_state(cls, state: State) -> MajorityVote:
        """Return the policy of a state."""
        return cls(state.parts)
