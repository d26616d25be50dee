// Draws every figure of the page from the data in it, and lets a reader zoom, and hide what a legend names.
// Plots of one group share a time axis and zoom together. What is read is data: no text of it becomes markup or code.
// A specification has two parameters that are set later: `domain`, what of the x axis is shown, and `hidden`, the looks
// that are not drawn. Colours are variables of the page's CSS, so that dark mode needs no other plot.

const narrow = matchMedia("(max-width: 640px)");
const groups = new Map();

class Group {
  constructor(name) {
    this.name = name;
    this.plots = [];
    this.whole = null; // the domain as first drawn, in the scale's own units
    this.shown = null;
    this.log = false;
    this.bar = [...document.querySelectorAll(".toolbar")].find((bar) => bar.dataset.group === name);
    for (const button of this.bar?.querySelectorAll("button") ?? [])
      button.addEventListener("click", () => this.press(button.dataset.do));
  }
  // On a logarithmic axis distances are between logarithms.
  even(value) { return this.log ? Math.log(value) : value; }
  own(value) { return this.log ? Math.exp(value) : value; }
  at(share) {
    const [begin, end] = this.shown.map((value) => this.even(value));
    return this.own(begin + share * (end - begin));
  }
  show(begin, end) {
    let [from, to] = [this.even(begin), this.even(end)];
    const [first, last] = this.whole.map((value) => this.even(value));
    const wide = Math.min(Math.max(to - from, this.log ? 0.05 : 2), last - first);
    from = Math.min(Math.max(from, first), last - wide);
    this.shown = from <= first && wide >= last - first ? [...this.whole] : [this.own(from), this.own(from + wide)];
    for (const plot of this.plots) plot.view?.signal("domain", this.shown).runAsync();
    this.say();
  }
  zoom(share, factor) {
    this.show(this.at(share * (1 - factor)), this.at(share + (1 - share) * factor));
  }
  move(share) { this.show(this.at(share), this.at(1 + share)); }
  press(what) {
    if (what === "in") this.zoom(0.5, 0.5);
    else if (what === "out") this.zoom(0.5, 2);
    else if (what === "earlier") this.move(-0.4);
    else if (what === "later") this.move(0.4);
    else this.show(...this.whole);
  }
  say() {
    const output = this.bar?.querySelector("output");
    if (!output) return;
    output.textContent = this.shown.map(this.log ? seconds : (ms) => moment(ms, this.shown[1] - this.shown[0] > 600000 ? 19 : 23)).join(" – ");
    for (const button of this.bar.querySelectorAll("button"))
      button.disabled = button.dataset.do !== "in" && this.shown.every((value, place) => value === this.whole[place]);
  }
}

const moment = (ms, length) => new Date(ms).toISOString().replace("T", " ").slice(0, length);
const seconds = (value) =>
  value < 1e-3 ? `${+(value * 1e6).toPrecision(3)} µs` : value < 1 ? `${+(value * 1e3).toPrecision(3)} ms` : `${+value.toPrecision(3)} s`;

class Plot {
  constructor(figure, group) {
    this.group = group;
    this.holder = figure.querySelector(".drawn");
    this.text = figure.querySelector("script").textContent;
    this.hidden = [];
    const plot = JSON.parse(this.text);
    group.whole ??= [...plot.domain];
    group.shown ??= [...group.whole];
    group.log ||= plot.kind === "histogram";
    group.plots.push(this);
    for (const button of figure.querySelectorAll(".legend button"))
      button.addEventListener("click", () => this.toggle(button));
    this.listen();
  }
  async draw() {
    const spec = specification(JSON.parse(this.text), this.group.shown, this.hidden);
    this.view?.finalize();
    const options = { mode: "vega-lite", renderer: "svg", actions: false, ast: true, config, tooltip: { disableDefaultStyle: true } };
    this.view = (await vegaEmbed(this.holder, spec, options)).view;
  }
  toggle(button) {
    const look = button.dataset.look;
    const hides = !this.hidden.includes(look);
    this.hidden = hides ? [...this.hidden, look] : this.hidden.filter((each) => each !== look);
    button.setAttribute("aria-pressed", String(!hides));
    this.view?.signal("hidden", this.hidden).runAsync();
  }
  // Where a pointer is: 0 at the left end of the axis, 1 at its right end.
  share(event) {
    const left = this.holder.getBoundingClientRect().left + this.view.origin()[0];
    return (event.clientX - left) / this.view.scale("x").range()[1];
  }
  listen() {
    const { holder, group } = this;
    const pointers = new Map(); // of each finger or the mouse: where it went down, where it is, the value below it
    const band = document.createElement("div");
    band.className = "band";
    const draw = (from, to) => {
      const [left, wide] = [this.view.origin()[0], this.view.scale("x").range()[1]];
      const [a, b] = [Math.min(from, to), Math.max(from, to)].map((share) => Math.min(Math.max(share, 0), 1));
      band.style.cssText = `left:${left + a * wide}px;width:${(b - a) * wide}px`;
      holder.append(band);
    };
    holder.addEventListener("pointerdown", (event) => {
      if (!this.view || event.button) return;
      const share = this.share(event);
      pointers.set(event.pointerId, { from: share, to: share, value: group.even(group.at(share)) });
      holder.setPointerCapture(event.pointerId);
      if (pointers.size > 1) band.remove();
    });
    holder.addEventListener("pointermove", (event) => {
      const pointer = pointers.get(event.pointerId);
      if (!pointer || pointer.pinched) return;
      pointer.to = this.share(event);
      if (pointers.size === 1) return draw(pointer.from, pointer.to);
      const [one, other] = pointers.values(); // what lay below the fingers stays below them
      if (Math.abs(other.to - one.to) < 0.02) return;
      const wide = (other.value - one.value) / (other.to - one.to);
      if (wide > 0) group.show(group.own(one.value - one.to * wide), group.own(one.value + (1 - one.to) * wide));
    });
    const end = (event) => {
      const pointer = pointers.get(event.pointerId);
      const alone = pointers.size === 1;
      pointers.delete(event.pointerId);
      band.remove();
      if (!pointer || !alone || pointer.pinched || event.type === "pointercancel") return;
      if (Math.abs(pointer.to - pointer.from) * this.view.scale("x").range()[1] < 8) return;
      const [from, to] = [pointer.from, pointer.to].sort((a, b) => a - b);
      group.show(group.at(Math.max(from, 0)), group.at(Math.min(to, 1)));
    };
    for (const name of ["pointerup", "pointercancel"])
      holder.addEventListener(name, (event) => {
        if (pointers.size > 1) for (const pointer of pointers.values()) pointer.pinched = true;
        end(event);
      });
    holder.addEventListener("dblclick", () => group.show(...group.whole));
    holder.addEventListener("wheel", (event) => {
      if (event.ctrlKey || event.metaKey) group.zoom(this.share(event), Math.exp(event.deltaY / 300));
      else if (event.shiftKey || Math.abs(event.deltaX) > Math.abs(event.deltaY)) group.move((event.deltaX || event.deltaY) / 800);
      else return; // the wheel alone scrolls the page
      event.preventDefault();
    }, { passive: false });
  }
}

const LABELS = 180; // px to the left of a plot for labels: plots of one group begin at the same place
const SEEN = { filter: "indexof(hidden, datum.look) < 0" };
const FORMATS = {
  year: "%Y", quarter: "%b %Y", month: "%b %Y", week: "%b %d", date: "%b %d", day: "%b %d",
  hours: "%H:%M", minutes: "%H:%M", seconds: "%H:%M:%S", milliseconds: "%H:%M:%S.%L",
};
const tickCount = { expr: "max(2, floor(width / 110))" };
// Within ten minutes every label has its seconds, also a full minute's.
const labelExpr = "+domain[1] - +domain[0] > 600000 ? datum.label : utcFormat(datum.value, +datum.value % 1000 ? '%H:%M:%S.%L' : '%H:%M:%S')";
const xTime = (field) => ({
  field, type: "temporal", scale: { type: "utc", domain: { expr: "domain" }, nice: false }, axis: { title: null, format: FORMATS, labelExpr, tickCount },
});
const xSeconds = (field) => ({
  field, type: "quantitative", scale: { type: "log", domain: { expr: "domain" }, nice: false },
  axis: { title: null, labelExpr: "datum.value < 0.001 ? round(datum.value * 1e6) + ' µs' : datum.value < 1 ? round(datum.value * 1e3) + ' ms' : datum.value + ' s'", tickCount },
});
const colour = (looks) => ({
  field: "look", type: "nominal", scale: { domain: looks, range: looks.map((look) => `var(--${look})`) }, legend: null,
});
const number = (field) => ({ field, type: "quantitative" });
const text = (field) => ({ field, type: "nominal" });
const said = { tooltip: text("title"), description: text("title") };

function specification(plot, shown, hidden) {
  const [height, layer] = plot.kind === "lanes" ? lanes(plot) : areas(plot);
  return {
    description: plot.title, width: "container", height, padding: { left: 8, right: 10, top: 6, bottom: 4 },
    autosize: { type: "fit-x", contains: "padding" },
    params: [{ name: "domain", value: shown }, { name: "hidden", value: hidden }], datasets: plot.datasets, layer,
  };
}

// Counts over an axis: step charts of how many there were over time, and histograms.
function areas(plot) {
  const extent = narrow.matches ? 34 : LABELS;
  const axis = { title: null, tickCount: 3, tickMinStep: 1, format: ",d", minExtent: extent, maxExtent: extent };
  return [narrow.matches ? 150 : 140, [{
    data: { name: "areas" }, transform: [SEEN, { calculate: "0", as: "zero" }], mark: { type: "rect", clip: true },
    encoding: {
      x: (plot.kind === "histogram" ? xSeconds : xTime)("begin"), x2: { field: "end" },
      y: { ...number("count"), axis }, y2: { field: "zero" }, color: colour(plot.looks), ...said,
    },
  }]];
}

// A lane with coloured segments for each thing; on a narrow page its label is above it.
function lanes(plot) {
  const small = narrow.matches;
  const count = plot.datasets.lanes.length;
  const base = `datum.lane + ${small ? 0.97 : 0.9}`;
  const tall = small ? 0.47 : 0.8;
  const low = 0.6; // below this share of the lane's height a text is drawn in the colour for the background
  const y = (field) => ({ ...number(field), scale: { domain: [0, count], nice: false, zero: false, reverse: true }, axis: null });
  const wide = "scale('x', min(+datum.end, +domain[1])) - scale('x', max(+datum.begin, +domain[0]))";
  const silent = "datum.look === 'silent'";
  return [count * (small ? 38 : 23), [
    { // takes the space for the labels: an invisible rule at its left end
      data: { values: [{}] }, mark: { type: "rule", opacity: 0, aria: false }, encoding: { x: { value: small ? 0 : -LABELS } },
    },
    {
      data: { name: "lanes" }, transform: [{ calculate: base, as: "base" }, { calculate: `datum.base - ${tall}`, as: "top" }],
      mark: { type: "rect", color: "var(--ground)", aria: false },
      encoding: { x: { value: 0 }, x2: { value: "width" }, y: y("top"), y2: { field: "base" } },
    },
    {
      data: { name: "segments" },
      transform: [SEEN, { calculate: base, as: "base" }, { calculate: `datum.base - ${tall} * max(datum.share, 0.17)`, as: "top" }],
      mark: { type: "rect", clip: true, strokeDash: { expr: `${silent} ? [3, 2] : [1, 0]` } },
      encoding: {
        x: xTime("begin"), x2: { field: "end" }, y: number("top"), y2: { field: "base" }, color: colour(plot.looks),
        stroke: { condition: { test: silent, value: "var(--grave)" }, ...colour(plot.looks) },
        // Half of an edge may be where the plot ends.
        strokeWidth: { condition: { test: "datum.grave", value: { expr: "+datum.begin === +datum.end ? 4 : 1.5" } }, value: 0 },
        ...said,
      },
    },
    { // a segment's words where they fit, which they do more often the closer one looks; 6.6 px is about a letter
      data: { name: "segments" },
      transform: [
        { filter: `datum.words && ${SEEN.filter}` }, { calculate: "max(+datum.begin, +domain[0])", as: "left" },
        { calculate: `${base} - ${tall} * (datum.share > ${low} ? datum.share / 2 : 0.68)`, as: "middle" },
      ],
      mark: { type: "text", clip: true, align: "left", baseline: "middle", dx: 4, fontSize: 11, tooltip: null, aria: false },
      encoding: {
        x: xTime("left"), y: number("middle"),
        color: { condition: { test: `datum.share > ${low}`, value: "var(--in)" }, value: "var(--ink)" },
        text: { condition: { test: `${wide} > 6.6 * length(datum.words) + 7`, field: "words" }, value: "" },
      },
    },
    {
      data: { name: "marks" }, transform: [SEEN],
      mark: { type: "rule", clip: true, strokeDash: [2, 3], strokeWidth: 1.5, opacity: 0.8 },
      encoding: { x: xTime("begin"), color: colour(plot.looks), ...said },
    },
    {
      data: { name: "lanes" }, transform: [{ calculate: `datum.lane + ${small ? 0.28 : 0.53}`, as: "middle" }],
      mark: {
        type: "text", baseline: "middle", fontSize: 12, align: small ? "left" : "right", dx: small ? 0 : -10,
        limit: small ? { expr: "width" } : LABELS - 14, color: "var(--ink)",
      },
      encoding: { x: { value: 0 }, y: number("middle"), text: text("label"), tooltip: text("label") },
    },
  ]];
}

const quiet = { labelColor: "var(--quiet)", gridColor: "var(--line)", domainColor: "var(--line)", tickColor: "var(--line)" };
const config = {
  font: 'system-ui, "Segoe UI", Roboto, "DejaVu Sans", sans-serif',
  background: "transparent",
  view: { stroke: null },
  axis: { ...quiet, labelFontSize: 11.5, labelPadding: 6, labelFlush: true, labelOverlap: true },
};

for (const figure of document.querySelectorAll("figure.plot")) {
  const name = figure.dataset.group;
  if (!groups.has(name)) groups.set(name, new Group(name));
  new Plot(figure, groups.get(name));
}
const drawAll = () => Promise.all([...groups.values()].flatMap((group) => group.plots.map((plot) => plot.draw())));
narrow.addEventListener("change", drawAll);
// Nobody can open on paper what is folded.
let unfolded = [];
addEventListener("beforeprint", () => {
  unfolded = [...document.querySelectorAll("details.fold:not([open])")];
  for (const fold of unfolded) fold.open = true;
});
addEventListener("afterprint", () => {
  for (const fold of unfolded.splice(0)) fold.open = false;
});
for (const group of groups.values()) group.say();
await drawAll();
document.documentElement.dataset.drawn = "true"; // for whoever waits for the plots
