"""Compiled loops of the reductions. Imported when first needed: Numba takes over a second."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numba import njit

__all__ = [
    "add_efron_stein",
    "add_gains",
    "add_item_products",
    "add_policy",
    "add_table_rows",
    "add_truncated_bets",
    "count_blocks",
    "hash_rows",
    "hashed_blocks",
    "spread_blocks",
    "truncated_masses",
]

# Bits of float64: the smallest normal number, and the digits without the exponent.
_NORMAL = 1 << 52
_DIGITS = _NORMAL - 1
# Of the bets on truncated weights: those from this one on are summed as products less 1, and the
# logarithm is taken after so many rows.
_WHOLE = 8
_ROWS = 64
# Rows that may lose more than this part of a small bet are added one by one, for the same reason.
_DEEP = 0.05
_LANES = 8


@njit(nogil=True, cache=True)
def _scrambled(x: Any) -> Any:
    """Return SplitMix64 of a number, as `piwo.logs.hashing.scramble`."""
    x += np.uint64(0x9E3779B97F4A7C15)
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


@njit(nogil=True, cache=True)
def hash_rows(rows: Any, odd: Any, hashes: Any) -> None:
    """Write the hash of each row: the sum over columns of a hash of the number, times `odd`."""
    for t in range(rows.shape[0]):
        total = np.uint64(0)
        for j in range(rows.shape[1]):
            total += _scrambled(rows[t, j]) * odd[j]
        hashes[t] = total


@njit(nogil=True, cache=True)
def hashed_blocks(numbers: Any, salt: Any, count: Any, blocks: Any) -> None:
    """Write the block of each row, one of `count` by the upper bits of a hash of its number."""
    for t in range(len(numbers)):
        upper = _scrambled(np.uint64(numbers[t]) ^ salt) >> np.uint64(32)
        blocks[t] = (upper * np.uint64(count)) >> np.uint64(32)


@njit(nogil=True, cache=True)
def count_blocks(blocks: Any, counts: Any) -> None:
    """Add the number of rows in each block to `counts`, (256,)."""
    # Two rows of one block that follow each other would wait for each other's sum.
    one, two, three = np.zeros(256, np.int64), np.zeros(256, np.int64), np.zeros(256, np.int64)
    whole = len(blocks) - len(blocks) % 4
    for t in range(0, whole, 4):
        counts[blocks[t]] += 1
        one[blocks[t + 1]] += 1
        two[blocks[t + 2]] += 1
        three[blocks[t + 3]] += 1
    for t in range(whole, len(blocks)):
        counts[blocks[t]] += 1
    counts += one + two + three


@njit(nogil=True, cache=True, inline="always")
def _spread(x: Any, key: Any) -> Any:
    """Return the block of the x-th of 64 numbers: a permutation of 6 bits given by a key.

    It is x -> m x + a thrice with shifts between, where m and a are bits of the key.
    """
    low = np.uint32(63)
    x = (x * (np.uint32(key & np.uint64(63)) | np.uint32(1)) + _six(key, 6)) & low
    x ^= x >> np.uint32(3)
    x = (x * (_six(key, 12) | np.uint32(1)) + _six(key, 18)) & low
    x ^= x >> np.uint32(3)
    return (x * (_six(key, 24) | np.uint32(1)) + _six(key, 30)) & low


@njit(nogil=True, cache=True, inline="always")
def _six(key: Any, shift: int) -> Any:
    return np.uint32((key >> np.uint64(shift)) & np.uint64(63))


@njit(nogil=True, cache=True)
def spread_blocks(numbers: Any, salt: Any, blocks: Any) -> None:
    """Write the block of each row: each 64 consecutive numbers are in the 64 blocks in some order.

    The order is given by a hash of the upper bits of the number.
    """
    t = 0
    while t < len(numbers):
        first = np.uint64(numbers[t])
        key = _scrambled((first >> np.uint64(6)) ^ salt)
        whole = first & np.uint64(63) == 0 and t + 64 <= len(numbers)
        if whole:
            gaps = 0
            for x in range(64):
                gaps += numbers[t + x] - numbers[t] != x
            whole = gaps == 0
        if whole:
            # 64 rows at once, along the vector units
            for x in range(64):
                blocks[t + x] = _spread(np.uint32(x), key)
            t += 64
        else:
            blocks[t] = _spread(np.uint32(first & np.uint64(63)), key)
            t += 1


@njit(nogil=True, cache=True, fastmath={"contract"})
def add_policy(w: Any, r: Any, value: Any, loss: Any, better: Any, sums: Any) -> None:
    """Write w R, w (1 - R) and w R + 1 - R, (n,) each, and add to six sums.

    These are the sums of w, w^2, w R, w^2 R, (w R)^2 and R. Weights are finite.
    """
    # Eight sums side by side, for the vector units. Their order is fixed, so that results do not
    # depend on the compiler or on the addresses of the arrays.
    t1, t2, t3 = np.zeros(_LANES), np.zeros(_LANES), np.zeros(_LANES)
    t4, t5, t6 = np.zeros(_LANES), np.zeros(_LANES), np.zeros(_LANES)
    for start in range(0, len(w), _LANES):
        for lane in range(min(_LANES, len(w) - start)):
            weight, reward = w[start + lane], r[start + lane]
            credit = weight * reward
            value[start + lane] = credit
            loss[start + lane] = weight * (1.0 - reward)
            better[start + lane] = credit + (1.0 - reward)
            t1[lane] += weight
            t2[lane] += weight * weight
            t3[lane] += credit
            t4[lane] += weight * credit
            t5[lane] += credit * credit
            t6[lane] += reward
    for k, lanes in enumerate((t1, t2, t3, t4, t5, t6)):
        for lane in range(_LANES):
            sums[k] += lanes[lane]


@njit(nogil=True, cache=True, fastmath={"contract"})
def truncated_masses(pi: Any, mu: Any, c: Any, k: Any, masses: Any, distance: Any) -> None:
    """Write sum_a min(c pi_a, k mu_a) for each (c, k), (C, n), and sum_a (mu_a - pi_a)_+, (n,).

    pi and mu (n, K) are the distributions of two policies in each row.
    """
    # The pairs lie along the vector units. Actions with pi = 0 add nothing.
    pairs = len(c)
    sums = np.zeros(pairs)
    for t in range(len(pi)):
        sums[:] = 0.0
        apart = 0.0
        for a in range(pi.shape[1]):
            p, m = pi[t, a], mu[t, a]
            if m > p:
                apart += m - p
            if p > 0.0:
                for i in range(pairs):
                    x, y = c[i] * p, k[i] * m
                    sums[i] += x if x < y else y  # noqa: FURB136 - max() checks for NaN: not vectorized
        distance[t] = apart
        for i in range(pairs):
            masses[i, t] = sums[i]


@njit(nogil=True, cache=True, fastmath={"contract"}, inline="always")
def _masses_below(
    t: int,
    pi: Any,
    mu: Any,
    pi_bits: Any,
    mu_bits: Any,
    caps: Any,
    light: Any,
    heavy: Any,
    masses: Any,
) -> None:
    """Write sum_a min(pi_a, c_k mu_a) of row t for each cap c_k = 1/2, 1, 2, 4, ..., in one pass.

    pi and mu (n, K) are the distributions of two policies, and their bits; light and heavy are
    zeros, and become zeros again.
    """
    count = len(caps)
    least, most, total = count, 0, 0.0
    for a in range(pi.shape[1]):
        p, m = pi_bits[t, a], mu_bits[t, a]
        # Those below the normal numbers add nothing, which makes the sum smaller: valid.
        if p < _NORMAL or m < _NORMAL:
            continue
        # the first k with pi <= c_k mu, from exponents and digits
        first = (p >> 52) - (m >> 52) + 1
        if (p & _DIGITS) > (m & _DIGITS):
            first += 1
        first = max(0, min(count, first))
        light[first] += pi[t, a]
        heavy[first] += mu[t, a]
        total += mu[t, a]
        least, most = min(least, first), max(most, first)
    for k in range(least):
        masses[k] = caps[k] * total
    # heavy[k + 1]: mu of the actions with pi > c_k mu
    for k in range(most - 1, least - 1, -1):
        heavy[k] += heavy[k + 1]
    below = 0.0
    for k in range(least, most):
        below += light[k]
        masses[k] = below + caps[k] * heavy[k + 1]
    below += light[most]
    for k in range(most, count):
        masses[k] = below
    for k in range(least, most + 1):
        light[k] = 0.0
        heavy[k] = 0.0


@njit(nogil=True, cache=True, fastmath={"contract"})
def add_truncated_bets(  # noqa: C901 - one loop over the rows, whose numbers stay in registers
    pi: Any, mu: Any, w: Any, reward: Any, share: Any, caps: Any, bets: Any, sums: Any
) -> None:
    """Add sum_t log(1 + bet (sum_a min(pi_a, c mu_a) - min(w, c) R)) to the sums of each (c, bet).

    pi and mu (n, K) are the distributions of two policies in each row; c = 1/2, 1, 2, 4, .... A row
    whose share (n,) is not 1 counts that much.
    """
    count = len(caps)
    # Y >= -c, so a factor is at least 1/5. From _WHOLE on these are products less 1, which are
    # exact for small bets.
    products = np.ones(count)
    products[_WHOLE:] = 0.0
    pi_bits, mu_bits = pi.view(np.int64), mu.view(np.int64)
    light, heavy, y = np.zeros(count + 1), np.zeros(count + 1), np.zeros(count)
    for t in range(len(pi)):
        _masses_below(t, pi, mu, pi_bits, mu_bits, caps, light, heavy, y)
        earned, weight = reward[t], w[t]
        if earned > 0.0:
            for k in range(count):
                y[k] -= earned * (weight if weight < caps[k] else caps[k])  # noqa: FURB136
        if share[t] != 1.0 or weight * earned * bets[_WHOLE] > _DEEP:
            for k in range(count):
                sums[k] += share[t] * math.log1p(bets[k] * y[k])
        else:
            for k in range(_WHOLE):
                products[k] *= 1.0 + bets[k] * y[k]
            for k in range(_WHOLE, count):
                x = bets[k] * y[k]
                products[k] += x + products[k] * x
        if t % _ROWS == _ROWS - 1 or t == len(pi) - 1:
            for k in range(_WHOLE):
                sums[k] += math.log(products[k])
                products[k] = 1.0
            for k in range(_WHOLE, count):
                sums[k] += math.log1p(products[k])
                products[k] = 0.0


@njit(nogil=True, cache=True, fastmath={"contract"})
def add_item_products(starts: Any, codes: Any, items: Any, sums: Any) -> None:
    """Add the upper half of v v' of each pair's action to its row's sum, sums (n, F).

    starts (n + 1,), codes (m,): the pairs; items (K, f + 1) the vectors v.
    """
    # Four pairs at a time share the loads and stores of the sums.
    width = items.shape[1]
    for row in range(len(starts) - 1):
        total = sums[row]
        pair, stop = starts[row], starts[row + 1]
        while pair + 4 <= stop:
            a, b = items[codes[pair]], items[codes[pair + 1]]
            c, d = items[codes[pair + 2]], items[codes[pair + 3]]
            at = 0
            for i in range(width):
                ai, bi, ci, di = a[i], b[i], c[i], d[i]
                for j in range(i, width):
                    total[at + j - i] += (ai * a[j] + bi * b[j]) + (ci * c[j] + di * d[j])
                at += width - i
            pair += 4
        while pair < stop:
            v = items[codes[pair]]
            at = 0
            for i in range(width):
                for j in range(i, width):
                    total[at + j - i] += v[i] * v[j]
                at += width - i
            pair += 1


@njit(nogil=True, cache=True, fastmath={"contract"})
def add_table_rows(starts: Any, codes: Any, table: Any, sums: Any) -> None:
    """Add the row of a table, (K, F), of each pair's action to its row's sum, sums (n, F)."""
    for row in range(len(starts) - 1):
        total = sums[row]
        pair, stop = starts[row], starts[row + 1]
        while pair + 4 <= stop:
            a, b = table[codes[pair]], table[codes[pair + 1]]
            c, d = table[codes[pair + 2]], table[codes[pair + 3]]
            for k in range(len(total)):
                total[k] += (a[k] + b[k]) + (c[k] + d[k])
            pair += 4
        while pair < stop:
            a = table[codes[pair]]
            for k in range(len(total)):
                total[k] += a[k]
            pair += 1


@njit(nogil=True, cache=True, fastmath={"contract"})
def add_pair_products(
    starts: Any, codes: Any, x: Any, share: Any, rows: Any, sums: Any, products: Any
) -> None:
    """Add s, s x and the upper half of s x x' of each pair's row to the sums of its action.

    starts (n + 1,), codes (m,): the pairs; x (n, d), share (n,): s; sums: rows (K,), sums (K, d)
    and products (K, d (d + 1) / 2).
    """
    width = x.shape[1]
    upper = np.empty(products.shape[1])
    for row in range(len(starts) - 1):
        s, at = share[row], 0
        for i in range(width):
            weighted = s * x[row, i]
            for j in range(i, width):
                upper[at + j - i] = weighted * x[row, j]
            at += width - i
        for pair in range(starts[row], starts[row + 1]):
            action = codes[pair]
            rows[action] += s
            for i in range(width):
                sums[action, i] += s * x[row, i]
            total = products[action]
            for k in range(len(upper)):
                total[k] += upper[k]


@njit(nogil=True, cache=True, fastmath={"contract"})
def add_gains(x: Any, rows: Any, action: Any, gains: Any, g: Any, gx: Any) -> None:
    """Add gains (m, S), and gains times context, to the sums g (K, S) and gx (K, d, S).

    x (n, d) is the context of all rows; rows (m,) are those with gains, action (m,) their actions.
    """
    # A row changes the d x S sums of its action only, which stay in the first cache. Scores lie
    # along the vector units, and four features at a time share the loads of the gains.
    scores = gains.shape[1]
    width = x.shape[1]
    for t in range(len(rows)):
        r = rows[t]
        sums = gx[action[t]]
        total = g[action[t]]
        gain = gains[t]
        for s in range(scores):
            total[s] += gain[s]
        f = 0
        while f + 4 <= width:
            x0, x1, x2, x3 = x[r, f], x[r, f + 1], x[r, f + 2], x[r, f + 3]
            s0, s1, s2, s3 = sums[f], sums[f + 1], sums[f + 2], sums[f + 3]
            for s in range(scores):
                v = gain[s]
                s0[s] += v * x0
                s1[s] += v * x1
                s2[s] += v * x2
                s3[s] += v * x3
            f += 4
        while f < width:
            x0 = x[r, f]
            s0 = sums[f]
            for s in range(scores):
                s0[s] += gain[s] * x0
            f += 1


@njit(nogil=True, cache=True, fastmath={"contract"})
def add_efron_stein(
    w: Any, mu: Any, logged: Any, s: Any, laplace: Any, changed: Any, squares: Any, lift: Any
) -> None:
    """Add rows, in their order, to the four arrays of `intervals.efron_stein`, each (G,).

    w and mu, (n, K), are the weights and propensities of all actions, logged, (n,), the weights of
    the logged ones. All but squares are logarithms: phi = sum_a mu(a) exp(-s w(a)) may underflow.
    """
    passed = 0.0
    for t in range(len(w)):
        least, least_positive = np.inf, np.inf
        for a in range(w.shape[1]):
            if mu[t, a] > 0.0:
                least = min(least, w[t, a])
                if w[t, a] > 0.0:
                    least_positive = min(least_positive, w[t, a])
        for g in range(len(s)):
            phi, psi = 0.0, 0.0
            for a in range(w.shape[1]):
                if mu[t, a] > 0.0:
                    x = mu[t, a] * np.exp(-s[g] * (w[t, a] - least))
                    phi += x
                    if x > 0.0:
                        psi += x * w[t, a] * w[t, a]
            # In units of exp(-s least): phi = sum_a mu(a) exp(-s w(a)) and
            # psi = sum_a mu(a) w(a)^2 exp(-s w(a))
            log_phi = np.log(phi) - s[g] * least
            laplace[g] += log_phi
            squares[g] += psi / phi
            lift[g] = max(lift[g], -s[g] * least_positive - log_phi)
            # W^2 exp(-s W) + psi, in units of exp(-s least)
            both = psi + logged[t] * logged[t] * np.exp(-s[g] * (logged[t] - least))
            if both > 0.0:
                added = np.log(both) - s[g] * (least + passed) - laplace[g]
                top = max(added, changed[g])
                changed[g] = top + np.log1p(np.exp(min(added, changed[g]) - top))
        passed += logged[t]
