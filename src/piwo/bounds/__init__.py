"""Bounds: pure functions from sums to numbers that are valid with a stated probability.

One bound a file.

Convention: a function of sums takes `log_inv_delta`, the log(1/delta) of what it returns (an
interval as a whole; a bound by itself), which `log_inv_delta(delta, ...)` makes; functions of
arrays and planning functions take `delta`. Values are in the unit of rewards mapped to [0, 1], and
raw: negative lower bounds are not hidden.
"""

from piwo.bounds.asymptotic import normal_interval
from piwo.bounds.best_value import best_value_upper
from piwo.bounds.clopper_pearson import clopper_pearson_lower
from piwo.bounds.control_variate import pooled_lower, pooled_lower_many
from piwo.bounds.coverage import coverage_lower, coverage_upper
from piwo.bounds.cressie_read import cressie_read_interval
from piwo.bounds.e_bh import e_bh
from piwo.bounds.efron_stein import efron_stein_interval
from piwo.bounds.empirical_bernstein import empirical_bernstein_lower
from piwo.bounds.empirical_likelihood import empirical_likelihood_interval
from piwo.bounds.fixed_bet import floor_at_zero, score_interval, score_linear_lower, score_lower
from piwo.bounds.gamma_exponential import gamma_exponential_lower
from piwo.bounds.grid import (
    GammaGrid,
    gamma_grid_ix,
    gamma_grid_ls,
    regret_bound_grid,
    regret_bound_grid_one_comparator,
    regret_bound_grid_root,
    regret_bound_grid_variance,
)
from piwo.bounds.hoeffding import hoeffding_lower
from piwo.bounds.improvement import (
    improvement_bets,
    improvement_lower,
    improvement_upper,
    logged_value_lower,
)
from piwo.bounds.interval import Guarantee, Interval
from piwo.bounds.ix import (
    ix_interval,
    ix_linear_lower,
    ix_lower,
    ix_upper_deviation,
    ix_upper_deviation_sqrt,
)
from piwo.bounds.ls import ls_interval, ls_lower
from piwo.bounds.missing_mass import missing_mass_upper
from piwo.bounds.mixture import (
    Horizon,
    check_horizon,
    grid_size,
    lcb_mean,
    log_e_value,
    lower,
    lower_many,
)
from piwo.bounds.pac_bayes import (
    Gibbs,
    gibbs_posterior,
    kl_divergence,
    kl_divergence_normal,
    pac_bayes_lower,
    regret_bound_pac_bayes_grid,
    regret_bound_pac_bayes_one_comparator,
)
from piwo.bounds.propensity_test import PropensityTest, propensity_e_test
from piwo.bounds.rate_cap import rate_cap_log_e_values, rate_cap_rows, rate_cap_upper
from piwo.bounds.regret import (
    gamma_auto,
    gamma_linear,
    regret_bound,
    regret_bound_alone,
    regret_bound_ls,
    regret_bound_one_comparator,
    regret_bound_pac_bayes,
    regret_bound_tuned,
)
from piwo.bounds.rows_for_regret import (
    PLANS,
    regret_after,
    rows_for_regret,
    rows_for_regret_variance,
    rows_needed,
)
from piwo.bounds.truncated import truncated_upper
from piwo.bounds.union import log_inv_delta
from piwo.bounds.value import value_interval, value_lower, value_upper

__all__ = [
    "PLANS",
    "GammaGrid",
    "Gibbs",
    "Guarantee",
    "Horizon",
    "Interval",
    "PropensityTest",
    "best_value_upper",
    "check_horizon",
    "clopper_pearson_lower",
    "coverage_lower",
    "coverage_upper",
    "cressie_read_interval",
    "e_bh",
    "efron_stein_interval",
    "empirical_bernstein_lower",
    "empirical_likelihood_interval",
    "floor_at_zero",
    "gamma_auto",
    "gamma_exponential_lower",
    "gamma_grid_ix",
    "gamma_grid_ls",
    "gamma_linear",
    "gibbs_posterior",
    "grid_size",
    "hoeffding_lower",
    "improvement_bets",
    "improvement_lower",
    "improvement_upper",
    "ix_interval",
    "ix_linear_lower",
    "ix_lower",
    "ix_upper_deviation",
    "ix_upper_deviation_sqrt",
    "kl_divergence",
    "kl_divergence_normal",
    "lcb_mean",
    "log_e_value",
    "log_inv_delta",
    "logged_value_lower",
    "lower",
    "lower_many",
    "ls_interval",
    "ls_lower",
    "missing_mass_upper",
    "normal_interval",
    "pac_bayes_lower",
    "pooled_lower",
    "pooled_lower_many",
    "propensity_e_test",
    "rate_cap_log_e_values",
    "rate_cap_rows",
    "rate_cap_upper",
    "regret_after",
    "regret_bound",
    "regret_bound_alone",
    "regret_bound_grid",
    "regret_bound_grid_one_comparator",
    "regret_bound_grid_root",
    "regret_bound_grid_variance",
    "regret_bound_ls",
    "regret_bound_one_comparator",
    "regret_bound_pac_bayes",
    "regret_bound_pac_bayes_grid",
    "regret_bound_pac_bayes_one_comparator",
    "regret_bound_tuned",
    "rows_for_regret",
    "rows_for_regret_variance",
    "rows_needed",
    "score_interval",
    "score_linear_lower",
    "score_lower",
    "truncated_upper",
    "value_interval",
    "value_lower",
    "value_upper",
]
