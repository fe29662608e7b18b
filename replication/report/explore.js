// Draw the values of a figure: a chart for each score, switches for the values of its columns, and
// the point below the cursor, or beside it by the arrow keys, as text.
const EXPLORE_DASHES = [[], [6, 3], [2, 3], [8, 3, 2, 3], [12, 3, 2, 3, 2, 3]];
const EXPLORE_LINES = ["──", "╌╌", "┄┄", "─·", "─··"]; // beside switches
const EXPLORE_MARKS = ["●", "■", "◆", "▲", "⬟"];
const EXPLORE_CORNERS = [12, 4, 4, 3, 5];
const EXPLORE_INCREMENTS = [1, 10, 100, 1e3, 1e4, 1e5].flatMap((k) => [k, 2 * k, 5 * k]);

function exploreFigure(panel, data) {
  const { x, y, by, values, levels, names } = data;
  const colour = (n) => data.colours[n] ?? EXPLORE_COLOURS[n % EXPLORE_COLOURS.length];
  const off = new Set(); // switched off: "column place"
  const signs = data.join ? EXPLORE_LINES : EXPLORE_MARKS;
  const several = by.filter((name) => levels[name].names.length > 1);
  const curves = group();
  let charts = [];
  let current = null; // [curve, place in it] of the point that is described
  panel.replaceChildren(...several.map(switches));
  if (data.title) panel.prepend(Object.assign(document.createElement("b"), { textContent: data.title }));
  const drawn = add(panel, "div", "charts");
  drawn.tabIndex = 0;
  drawn.setAttribute("role", "group");
  drawn.setAttribute("aria-label", `Points${data.title && " "}${data.title}: read them with the arrow keys`);
  const text = add(panel, "output");
  text.setAttribute("aria-live", "polite");
  add(panel, "small").textContent = data.note;
  drawn.addEventListener("keydown", walk);
  let width = 0;
  new ResizeObserver(() => width !== (width = panel.clientWidth) && draw()).observe(panel);

  function add(parent, tag, name = "") {
    const element = parent.appendChild(document.createElement(tag));
    element.className = name;
    return element;
  }

  /** Rows with the same values of all columns in `by`. */
  function group() {
    const found = new Map();
    values[x].forEach((_, row) => {
      const places = by.map((name) => levels[name].places[row]);
      const key = places.join();
      if (!found.has(key)) found.set(key, { places, rows: [] });
      found.get(key).rows.push(row);
    });
    return [...found.values()];
  }

  /** Place of a curve's value in the n-th column with several values; 0 without such a column. */
  function place(curve, n) {
    return n < several.length ? curve.places[by.indexOf(several[n])] : 0;
  }

  /** A checkbox for each value of a column. */
  function switches(name, n) {
    const set = document.createElement("fieldset");
    add(set, "legend").textContent = name;
    levels[name].names.forEach((value, i) => {
      const line = add(set, "label");
      const box = add(line, "input");
      box.type = "checkbox";
      box.checked = true;
      box.addEventListener("change", () => {
        off[box.checked ? "delete" : "add"](`${name} ${i}`);
        draw();
      });
      if (n === 0) add(line, "span", "swatch").style.background = colour(i);
      if (n === 1) add(line, "span").textContent = signs[i % signs.length];
      line.append(value);
    });
    return set;
  }

  function shown() {
    return curves.filter((curve) => !by.some((name, i) => off.has(`${name} ${curve.places[i]}`)));
  }

  function draw() {
    charts.forEach((chart) => chart.destroy());
    const n = Math.max(1, Math.min(y.length, Math.floor(panel.clientWidth / 330)));
    const size = Math.floor(panel.clientWidth / n) - 4;
    const visible = shown();
    charts = visible.length ? y.map((name) => chart(name, visible, size)) : [];
    describe(visible.includes(current?.[0]) ? current : null);
    if (!visible.length) text.textContent = "Nothing is switched on.";
  }

  function chart(name, visible, size) {
    const rows = visible.map((curve) => curve.rows.filter((row) => values[name][row] !== null));
    const series = visible.map((curve, i) => ({
      facets: [{ scale: "x" }, { scale: "y" }],
      stroke: colour(place(curve, 0)),
      fill: colour(place(curve, 0)),
      dash: data.join ? EXPLORE_DASHES[place(curve, 1) % EXPLORE_DASHES.length] : [],
      width: data.join ? 1.5 : 1,
      points: { show: () => false },
      paths: (u) => path(u, name, rows[i], place(curve, 1)),
    }));
    const points = rows.map((of) => [x, name].map((side) => of.map((row) => values[side][row])));
    const axis = { stroke: "#1b1f23", grid: { stroke: "#e4e7ea" }, ticks: { stroke: "#8a8a8a" } };
    const options = {
      mode: 2,
      width: size,
      height: y.length > 1 ? 270 : 340,
      legend: { show: false },
      cursor: { drag: { x: false, y: false }, points: { show: false }, dataIdx: () => null },
      scales: {
        x: { time: false, distr: data.log_x ? 3 : 1, range: extent(points, 0, data.log_x) },
        y: { range: extent(points, 1, false) },
      },
      axes: [
        { ...axis, label: x, ...ticks() },
        { ...axis, label: name, size: 60 },
      ],
      series: [null, ...series],
      hooks: { setCursor: [(u) => point(u, name, visible)] },
    };
    const made = new uPlot(options, [null, ...points], drawn);
    made.mark = add(made.over, "div", "mark");
    made.score = name;
    return made;
  }

  /** Ticks of the x axis: at the values if these have names, or are few on a logarithmic axis; else
   * at whole numbers if these are. */
  function ticks() {
    const splits = [...new Set(values[x])].sort((a, b) => a - b);
    const texts = (u, all) => all.map((value) => names?.[value] ?? value.toLocaleString("en"));
    const at = { splits: () => splits, filter: (u, all) => all, values: texts, rotate: names ? 0 : -45 };
    return names || (data.log_x && splits.length < 12) ? at : !data.log_x && splits.every(Number.isInteger) ? { incrs: EXPLORE_INCREMENTS } : {};
  }

  /** Limits of a scale: a little more than the values. */
  function extent(points, side, logarithmic) {
    const all = points.flatMap((pair) => pair[side]);
    const [low, high] = all.length ? [Math.min(...all), Math.max(...all)] : [1, 2];
    const margin = 0.04 * (high - low || Math.abs(high) || 1);
    return () => (logarithmic ? [low / 1.2, high * 1.2] : [low - margin, high + margin]);
  }

  /** A line with dots if these have room, or marks: a disc, square, diamond, triangle or pentagon. */
  function path(u, name, rows, shape) {
    const [line, marks] = [new Path2D(), new Path2D()];
    const kind = shape % EXPLORE_CORNERS.length;
    const radius = devicePixelRatio * (data.join ? 2.5 : kind ? 4.2 : 3.2);
    rows.forEach((row, i) => {
      const [left, top] = position(u, name, row, true);
      if (data.join) line[i ? "lineTo" : "moveTo"](left, top);
      if (data.join && rows.length > 40) return;
      const corners = data.join ? 12 : EXPLORE_CORNERS[kind];
      const turn = kind === 1 ? 0.25 : 0;
      for (let k = 0; k < corners; k++) {
        const angle = Math.PI * ((2 * k) / corners + turn - 0.5);
        const to = [left + radius * Math.cos(angle), top + radius * Math.sin(angle)];
        marks[k ? "lineTo" : "moveTo"](...to);
      }
      marks.closePath();
    });
    return { stroke: line, fill: marks, flags: 3 };
  }

  /** Left and top of a point in a chart, in its own pixels or in those of its canvas. */
  function position(u, name, row, canvas = false) {
    return [u.valToPos(values[x][row], "x", canvas), u.valToPos(values[name][row], "y", canvas)];
  }

  /** Describe the point nearest to the cursor. */
  function point(u, name, visible) {
    const { left, top } = u.cursor;
    if (left < 0) return;
    let [best, nearest] = [Infinity, null];
    for (const curve of visible) {
      curve.rows.forEach((row, i) => {
        if (values[name][row] === null) return;
        const [right, up] = position(u, name, row);
        const distance = (right - left) ** 2 + (up - top) ** 2;
        if (distance < best) [best, nearest] = [distance, [curve, i]];
      });
    }
    describe(nearest);
  }

  /** Say where a point belongs and its values, and mark it in all charts. */
  function describe(found) {
    current = found;
    const row = found?.[0].rows[found[1]];
    const parts = found && [
      ...several.map((name, n) => [name, levels[name].names[place(found[0], n)]]),
      [x, names?.[values[x][row]] ?? values[x][row]],
      ...y.map((name) => [name, values[name][row]]),
      ...data.show.map((name) => [name, data.texts[name][row]]),
    ];
    const minus = (value) => (typeof value === "number" ? String(value).replace("-", "−") : value);
    text.textContent = parts
      ? parts
          .filter(([, value]) => value !== null && value !== "")
          .map(([name, value]) => `${name} ${minus(value)}`)
          .join(" · ")
      : "Point at a value, or walk with the arrow keys.";
    for (const u of charts) {
      u.mark.hidden = !found || values[u.score][row] === null;
      if (u.mark.hidden) continue;
      const [left, top] = position(u, u.score, row);
      Object.assign(u.mark.style, { left: `${left}px`, top: `${top}px` });
    }
  }

  /** Left and right: along a curve; up and down: to another. */
  function walk(event) {
    const along = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    const step = along ?? { ArrowUp: -1, ArrowDown: 1 }[event.key];
    const visible = shown();
    if (!step || !visible.length) return;
    event.preventDefault();
    const [curve, i] = current ?? [visible[0], along ? -step : 0];
    const next = visible[(visible.indexOf(curve) + step + visible.length) % visible.length];
    const to = along || !current ? curve : next;
    const clamp = (n) => Math.max(0, Math.min(to.rows.length - 1, n));
    describe([to, clamp(along ? i + step : i)]);
  }
}
const exploreStyle = document.head.appendChild(document.createElement("style"));
exploreStyle.textContent = EXPLORE_STYLE;
