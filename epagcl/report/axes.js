// Axes: the range of values, round ticks, and the place of a value between 0 and 1.

// An axis of { values, title, log, zero, whole, tight }. `zero` includes 0, `whole` has ticks at whole numbers only, and
// `tight` ends at the extreme values.
function axisOf({ values, title = "", log = false, zero = false, whole = false, tight = false }) {
  let [low, high] = extent(log ? values.filter((value) => value > 0) : values);
  if (!(low <= high)) [low, high] = log ? [1, 10] : [0, 1];
  if (zero && !log) [low, high] = [Math.min(low, 0), Math.max(high, 0)];
  const to = log ? Math.log10 : (value) => value;
  let [start, end] = [to(low), to(high)];
  const margin = start === end ? (log ? 0.1 : 0.05 * Math.abs(low) || 0.5) : tight ? 0 : 0.05 * (end - start);
  if (!(zero && low === 0)) start -= margin;
  if (!(zero && high === 0) || low === high) end += margin;
  const from = log ? (value) => 10 ** value : to;
  return {
    title, log, at: (value) => (to(value) - start) / (end - start),
    ticks: (most) => (log ? logTicks(from(start), from(end), most) : roundTicks(start, end, most, whole)),
  };
}

// Logarithmic if the values span at least 1.5 decades; over less, a logarithmic axis has hardly any ticks.
function spanAxis(title, values, whole = false) {
  const [least, most] = extent(values.filter((value) => value > 0));
  const log = most / least >= 10 ** 1.5;
  return axisOf({ values, title, log, zero: !log, whole });
}

// Multiples of 1, 2 or 5 times a power of ten, at most about `most`.
function roundTicks(low, high, most, whole = false) {
  const rough = (high - low) / Math.max(most, 1);
  const power = 10 ** Math.floor(Math.log10(rough) + 1e-9);
  let step = power * [1, 2, 5, 10].find((factor) => factor * power >= rough * (1 - 1e-9));
  if (whole) step = Math.max(1, step);
  const digits = Math.max(0, -Math.floor(Math.log10(step) + 1e-9));
  const ticks = [];
  for (let k = Math.ceil(low / step - 1e-9); k * step <= high + 1e-9 * step; k++) {
    const value = k * step || 0; // not −0
    ticks.push({ value, text: tickText(value, digits) });
  }
  return ticks;
}

// Powers of ten, with 2 and 5 times them where there is room.
function logTicks(low, high, most) {
  const powers = [Math.floor(Math.log10(low) + 1e-9), Math.ceil(Math.log10(high) - 1e-9)];
  const decades = Math.log10(high / low);
  const factors = 3 * decades <= 1.3 * most ? [1, 2, 5] : [1];
  const every = Math.max(1, Math.ceil(decades / Math.max(most, 1)));
  const ticks = [];
  for (let power = powers[0]; power <= powers[1]; power++) {
    if (power % every) continue;
    for (const factor of factors) {
      const value = factor * 10 ** power;
      if (value >= low * (1 - 1e-9) && value <= high * (1 + 1e-9)) ticks.push({ value, text: tickText(value, Math.max(0, -power)) });
    }
  }
  return ticks;
}

function tickText(value, digits) {
  const size = Math.abs(value);
  if (size >= 1e6) return minus(`${Number((value / 1e6).toPrecision(3))}M`);
  if (size >= 1e4 && value % 1000 === 0) return minus(`${value / 1000}k`);
  if (size > 0 && size < 1e-5) return minus(value.toExponential(0));
  return minus(value.toLocaleString("en", { minimumFractionDigits: Math.min(digits, 6), maximumFractionDigits: Math.min(digits, 6) }));
}

const minus = (text) => text.replace("-", "−");
// A value in a readout: four significant digits.
const readable = (value) => minus(Number.isInteger(value) ? count(value) : plain(value));
