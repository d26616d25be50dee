// Draws every figure of the page from the specification in it, and lets a reader zoom, and hide what a legend names.
// Plots of one group share a time axis and zoom together. What is read is data: no text of it becomes markup or code.

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
    const spec = JSON.parse(this.text);
    group.whole ??= [...spec.params.find((each) => each.name === "domain").value];
    group.shown ??= [...group.whole];
    group.log ||= spec.layer.some((layer) => layer.encoding.x?.scale?.type === "log");
    group.plots.push(this);
    for (const button of figure.querySelectorAll(".legend button"))
      button.addEventListener("click", () => this.toggle(button));
    this.listen();
  }
  async draw() {
    const spec = JSON.parse(this.text);
    if (narrow.matches) Object.assign(spec, spec.usermeta.narrow);
    const values = { domain: this.group.shown, hidden: this.hidden, narrow: narrow.matches };
    for (const each of spec.params) each.value = values[each.name];
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
