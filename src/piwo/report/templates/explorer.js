"use strict";
// The explorer: bounds from the sums in this page, with the formulas of piwo.bounds. Nothing is
// fetched and nothing is written into the page as HTML.
(() => {
  const data = JSON.parse(document.getElementById("explorer-data").textContent);
  const byId = (id) => document.getElementById(id);
  const logBets = data.bets.map(Math.log);
  const HALVINGS = 64;

  // ---------------------------------------------------------------- bounds
  // log(sum_j exp(x_j)) without overflow
  function logSumExp(terms) {
    const peak = Math.max(...terms);
    if (peak === -Infinity) return peak;
    return peak + Math.log(terms.reduce((sum, x) => sum + Math.exp(x - peak), 0));
  }

  // piwo.bounds.mixture.grid_size: the number of bets for n rows
  function gridSize(n, logInvDelta) {
    const octaves = 5 + Math.log2(n) - Math.log2(logInvDelta);
    return Math.min(48, Math.max(1, Math.ceil(octaves) + 1));
  }

  // the largest log v over bets with n log(1 + lambda v) = excess
  function logSingleBet(excess, n) {
    const logs = excess.map((x, j) => {
      const growth = Math.max(x, 0) / n;
      return growth > 0 ? growth + Math.log(-Math.expm1(-growth)) - logBets[j] : -Infinity;
    });
    return Math.max(...logs);
  }

  // piwo.bounds.mixture.lower: sup{v : log sum_j p_j exp(S_j - n log(1 + lambda_j v)) >= log 1/delta}
  function lower(sums, n, logInvDelta, logPrior) {
    const used = Array.from(sums.subarray(0, logPrior.length));
    const surplus = logSumExp(used.map((s, j) => s + logPrior[j])) - logInvDelta;
    if (surplus <= 0) return 0;
    const alone = logSingleBet(used.map((s, j) => s + logPrior[j] - logInvDelta), n);
    const nearZero = Math.log(surplus) - Math.log(n) - logBets[0];
    let low = Math.max(alone, nearZero);
    let high = Math.max(low, logSingleBet(used.map((s) => s - logInvDelta), n));
    for (let i = 0; i < HALVINGS; i++) {
      const middle = low + (high - low) / 2;
      const wealth = used.map((s, j) => {
        const x = logBets[j] + middle;
        const stake = x > 0 ? x + Math.log1p(Math.exp(-x)) : Math.log1p(Math.exp(x));
        return s - n * stake + logPrior[j];
      });
      if (logSumExp(wealth) > logInvDelta) low = middle;
      else high = middle;
    }
    return Math.exp(low);
  }

  function evenPrior(n, logInvDelta) {
    const size = gridSize(n, logInvDelta);
    return new Array(size).fill(-Math.log(size));
  }

  // piwo.bounds.improvement.improvement_bets
  function improvementPrior(n, logInvDelta) {
    const best = 0.5 * (1 + Math.log2(logInvDelta) - Math.log2(Math.max(n, 1)));
    const distance = data.bets
      .slice(0, gridSize(n, logInvDelta))
      .map((bet) => Math.max(0, Math.abs(Math.log2(bet) - best) - 2));
    const least = Math.min(...distance);
    const weights = distance.map((x) => 2 ** (least - x));
    const total = weights.reduce((sum, x) => sum + x, 0);
    return weights.map((x) => Math.log(x / total));
  }

  // piwo.bounds.ix_lower: (exp(2 gamma V - log(1/delta)/n) - 1) / (2 gamma)
  const ixLower = (value, n, gamma, logInvDelta) =>
    Math.expm1(2 * gamma * value - logInvDelta / n) / (2 * gamma);

  // ------------------------------------------------------------------ sums
  function unpacked(part) {
    if (part.arrays) return part.arrays;
    const bytes = Uint8Array.from(atob(part.sums), (x) => x.charCodeAt(0));
    const view = new DataView(bytes.buffer);
    const all = Float64Array.from({ length: bytes.length / 8 }, (_, i) => view.getFloat64(8 * i, true));
    const m = data.bets.length;
    const g = data.gammas.length;
    part.arrays = {
      value: all.subarray(0, m),
      loss: all.subarray(m, 2 * m),
      gain: all.subarray(2 * m, 3 * m),
      credit: all.subarray(3 * m, 3 * m + g),
      lost: all.subarray(3 * m + g),
    };
    return part.arrays;
  }

  // All numbers for a choice, in the reward's own unit; null: no bound can be given.
  function computed(policy, segment, delta, place) {
    const part = data.policies[policy].sums[segment];
    const sums = unpacked(part);
    const gamma = data.gammas[place];
    const n = part.n;
    const own = (x) => data.low + data.span * x;
    const found = { n, value: part.value, ixValue: n ? own(sums.credit[place] / n) : null };
    if (!part.usable || n === 0) return found;
    // segments share delta, and so do policies; each end of an interval has half
    const share = (segment ? delta / data.segments.length : delta) / data.count;
    const one = Math.log(1 / share);
    const half = one + Math.log(2);
    const prior = evenPrior(n, half);
    found.mixtureLower = own(lower(sums.value, n, half, prior));
    found.mixtureUpper = own(Math.min(1, 1 - lower(sums.loss, n, half, prior)));
    const gain = lower(sums.gain, n, one, improvementPrior(n, one)) - 1;
    found.improvement = data.span * Math.max(-1, gain);
    found.ixLower = own(Math.max(0, ixLower(sums.credit[place] / n, n, gamma, half)));
    found.ixUpper = own(Math.min(1, 1 - ixLower(sums.lost[place] / n, n, gamma, half)));
    return found;
  }

  // --------------------------------------------------------------- the page
  function shown(value) {
    if (value === null || value === undefined) return "-";
    const scaled = value * data.per;
    return String(Number(scaled.toPrecision(4))).replace("-", "−");
  }

  function put(id, value) {
    const cell = byId(id);
    cell.textContent = shown(value);
    cell.dataset.exact = value === null || value === undefined ? "" : String(value);
  }

  function drawn(tag, attributes, figure) {
    const node = document.createElementNS("http://www.w3.org/2000/svg", tag);
    for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
    figure.appendChild(node);
    return node;
  }

  function draw(found, logged) {
    const figure = byId("explored-figure");
    figure.replaceChildren();
    const rows = [
      [16, "mixture", found.mixtureLower, found.value, found.mixtureUpper],
      [44, "IX", found.ixLower, found.ixValue, found.ixUpper],
    ];
    const known = rows.flatMap((row) => row.slice(2)).concat([logged]).filter((x) => Number.isFinite(x));
    const low = Math.min(...known);
    const high = Math.max(...known);
    const span = high - low || 1;
    const at = (x) => `${10 + (88 * (x - low)) / span}%`;
    drawn("line", { class: "zero", x1: at(logged), x2: at(logged), y1: 0, y2: 60 }, figure);
    for (const [y, name, least, value, most] of rows) {
      drawn("text", { x: 0, y: y + 4, class: "first" }, figure).textContent = name;
      if (Number.isFinite(least)) {
        drawn("line", { class: "range", x1: at(least), x2: at(most), y1: y, y2: y }, figure);
      }
      if (Number.isFinite(value)) drawn("circle", { class: "dot", cx: at(value), cy: y, r: 5 }, figure);
    }
  }

  const policy = byId("pick-policy");
  const segment = byId("pick-segment");
  const delta = byId("delta");
  const gamma = byId("gamma");

  function update() {
    const level = data.deltas[Number(delta.value)];
    const smoothing = data.gammas[Number(gamma.value)];
    const found = computed(Number(policy.value), Number(segment.value), level, Number(gamma.value));
    const logged = data.policies[Number(policy.value)].sums[Number(segment.value)].logged;
    byId("delta-text").textContent = String(level);
    byId("gamma-text").textContent = String(smoothing);
    // As in the rest of the page: a probability that would be rounded to 100 % is a difference.
    const percent = Number((100 * (1 - level)).toPrecision(6));
    const sure = percent < 100 ? `${percent} %` : `1 - ${level}`;
    delta.setAttribute("aria-valuetext", `${sure} sure`);
    gamma.setAttribute("aria-valuetext", String(smoothing));
    put("value", found.value);
    put("mixture-lower", found.mixtureLower);
    put("mixture-upper", found.mixtureUpper);
    put("improvement", found.improvement);
    put("ix-value", found.ixValue);
    put("ix-lower", found.ixLower);
    put("ix-upper", found.ixUpper);
    const name = data.policies[Number(policy.value)].name;
    let text = `${name}: no bound can be given on these ${found.n} rows.`;
    if (found.improvement !== undefined) {
      const proved = found.improvement > 0 ? "proved better" : "not proved better";
      text = `${name}: ${proved} at ${sure}; gain at least ${shown(found.improvement)} ${data.axis}.`;
    }
    byId("explored").textContent = text;
    draw(found, logged);
  }

  function option(select, value, text) {
    const node = document.createElement("option");
    node.value = String(value);
    node.textContent = text;
    select.appendChild(node);
  }

  data.policies.forEach((one, i) => option(policy, i, one.name));
  option(segment, 0, "all rows");
  data.segments.forEach((label, i) => option(segment, i + 1, label));
  byId("segment-label").hidden = data.segments.length === 0;
  delta.max = String(data.deltas.length - 1);
  delta.value = String(data.deltas.indexOf(data.delta));
  gamma.max = String(data.gammas.length - 1);
  gamma.value = String(Math.floor(data.gammas.length / 2));
  byId("explored-axis").textContent = data.legend;
  for (const control of [policy, segment, delta, gamma]) control.addEventListener("input", update);
  byId("without-script").hidden = true;
  document.querySelector(".explorer").hidden = false;
  update();
})();
