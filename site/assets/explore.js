/* Explore page: puts a chart drawn by Vega in the place of the static one.
 *
 * Nothing happens unless the bundle is there. Each layer's spec is a script of its own that
 * calls atlasLayer(spec), because a page opened from file:// may not read files. One layer is
 * shown at a time; the chart of the layer before is taken down first. Text goes in as text, and
 * colours come from the stylesheet, so the page's policy needs no unsafe-inline or unsafe-eval. */
(() => {
  "use strict";

  const embed = window.vegaEmbed;
  const byId = (id) => document.getElementById(id);
  const live = byId("live");
  if (typeof embed !== "function" || live === null) return;

  const figure = byId("chart");
  const plots = figure.querySelector(".plots");
  const drawing = byId("drawing");
  const tip = byId("tip");
  const pick = byId("layer-pick");
  const layers = new Map();
  const start = { layer: pick.querySelector("[selected]").value, domain: "" };
  const INKS = { whisker: "whisker", shape: "edge", uniform: "accent" };
  let shown = null; // {layer, view, finalize}
  let picked = -1; // place of the bar that the arrow keys are on
  let turn = 0; // the newest request wins

  window.atlasLayer = (spec) => layers.set(String(spec.usermeta.layer), spec);

  const chosen = () => ({
    layer: pick.value,
    domain: document.querySelector("input[name=domain]:checked").value,
    weighting: byId("w-token_weighted").checked ? "token_weighted" : "prompt_balanced",
    order: byId("o-id").checked ? "id" : "share",
  });

  function load(layer) {
    if (layers.has(layer)) return Promise.resolve(layers.get(layer));
    return new Promise((resolve, reject) => {
      const script = document.createElement("script");
      script.src = [...pick.options].find((o) => o.value === layer).dataset.source;
      script.addEventListener("load", () => resolve(layers.get(layer)));
      script.addEventListener("error", () => reject(new Error(`layer ${layer}`)));
      document.head.append(script);
    });
  }

  /** The spec in the colours and the type of the page, with the reader's choice. */
  function dressed(spec, choice) {
    const style = getComputedStyle(document.documentElement);
    const colour = (name) => style.getPropertyValue(`--${name}`).trim();
    const own = structuredClone(spec);
    const values = { domain: choice.domain, weighting: choice.weighting, order: choice.order };
    for (const param of own.params) {
      const name = param.name.replace("pick_", "");
      if (name in values) param.value = values[name];
    }
    own.background = "transparent";
    own.config = {
      ...own.config,
      font: getComputedStyle(document.body).fontFamily,
      view: { stroke: null },
      range: { category: ["above", "holds", "below", "above"].map(colour) },
      axis: {
        ...own.config.axis,
        aria: false,
        labelColor: colour("soft"),
        gridColor: colour("line"),
        domainColor: colour("line"),
        tickColor: colour("line"),
      },
    };
    for (const { mark, encoding } of own.layer) {
      mark.aria = false; // the group around the drawing speaks, bar by bar
      if (mark.style === "load") mark.stroke = colour("accent");
      else mark.color = colour(INKS[mark.style]);
      if (mark.style === "shape") mark.fill = colour("above");
      if (mark.style === "uniform") encoding.y.axis.labelColor = colour("accent");
    }
    return own;
  }

  async function draw(spec, choice) {
    if (shown !== null) shown.finalize();
    shown = null;
    const result = await embed(drawing, dressed(spec, choice), {
      mode: "vega-lite",
      ast: true,
      actions: false,
      defaultStyle: false,
      renderer: "svg",
      tooltip: (_, event, item, value) => point(event, item, value),
    });
    shown = { layer: choice.layer, view: result.view, finalize: result.finalize };
  }

  async function show(again = false) {
    const mine = (turn += 1);
    const choice = chosen();
    try {
      const spec = await load(choice.layer);
      if (mine !== turn) return;
      live.hidden = false;
      plots.hidden = true;
      if (again || shown === null || shown.layer !== choice.layer) {
        await draw(spec, choice);
      } else {
        for (const name of ["domain", "weighting", "order"]) {
          shown.view.signal(`pick_${name}`, choice[name]);
        }
        await shown.view.runAsync();
      }
      if (mine !== turn) return void show(true);
      leave();
      say(spec.usermeta.domains[choice.domain], choice);
    } catch {
      still();
    }
  }

  /** Words around the chart follow it; what belongs to the static chart alone steps aside. */
  function say(words, choice) {
    figure.querySelector("figcaption h2").textContent = words.title;
    figure.querySelector(":scope > .note").textContent = words.caption;
    // Vega names the element it draws in a document; here it is a group that keys walk through
    drawing.setAttribute("role", "group");
    drawing.removeAttribute("aria-roledescription");
    drawing.setAttribute("aria-label", words.alternative);
    byId("page").textContent = words.page_text;
    byId("page").setAttribute("href", words.page);
    const same = choice.layer === start.layer && choice.domain === start.domain;
    figure.querySelector(".take").hidden = !same;
    byId("layer-before").disabled = pick.selectedIndex === 0;
    byId("layer-after").disabled = pick.selectedIndex === pick.options.length - 1;
    live.dataset.shown = `${choice.layer} ${choice.domain} ${choice.weighting} ${choice.order}`;
  }

  /** Back to the static chart, as if there were no script. */
  function still() {
    live.hidden = true;
    plots.hidden = false;
    byId("picks").hidden = true;
    byId("still").hidden = false;
  }

  /* --- the figures of one bar, by pointer or by key --- */

  function fill(value) {
    tip.replaceChildren(
      ...Object.entries(value).map(([name, text]) => {
        const line = document.createElement("div");
        const label = document.createElement("span");
        label.textContent = name;
        line.append(label, ` ${text}`);
        return line;
      }),
    );
    tip.hidden = false;
  }

  function place(x, y) {
    const room = live.clientWidth - tip.offsetWidth;
    tip.style.left = `${Math.max(0, Math.min(room, x - tip.offsetWidth / 2))}px`;
    tip.style.top = `${Math.max(0, y - tip.offsetHeight - 12)}px`;
  }

  function point(event, item, value) {
    if (value === null || value === undefined || value === "") {
      if (picked < 0) tip.hidden = true;
      return;
    }
    const box = live.getBoundingClientRect();
    fill(value);
    place(event.clientX - box.left, event.clientY - box.top);
  }

  /** Bars from left to right, as Vega has them in its scene: items with figures to show. */
  function bars() {
    const found = [];
    const walk = (item, x, y) => {
      if (item.marktype) {
        for (const child of item.items) walk(child, x, y);
        return;
      }
      if (item.tooltip && item.datum && item.datum.expert) found.push({ item, x, y });
      for (const mark of item.items ?? []) walk(mark, x + (item.x ?? 0), y + (item.y ?? 0));
    };
    const origin = shown.view.origin();
    walk(shown.view.scenegraph().root, origin[0], origin[1]);
    return found.sort((a, b) => a.item.x - b.item.x);
  }

  function move(to) {
    const all = bars();
    picked = Math.max(0, Math.min(all.length - 1, to(all.length)));
    const { item, x, y } = all[picked];
    fill(item.tooltip);
    place(drawing.offsetLeft + x + item.x + item.width / 2, drawing.offsetTop + y + item.y);
    byId("spoken").textContent = Object.entries(item.tooltip).map((e) => e.join(" ")).join(", ");
    shown.view.signal("pick_expert", item.datum.expert).runAsync();
  }

  function leave() {
    if (picked >= 0 && shown !== null) shown.view.signal("pick_expert", "").runAsync();
    picked = -1;
    tip.hidden = true;
    byId("spoken").textContent = "";
  }

  const KEYS = {
    ArrowRight: () => picked + 1,
    ArrowLeft: (count) => (picked < 0 ? count - 1 : picked - 1),
    Home: () => 0,
    End: (count) => count - 1,
  };
  drawing.addEventListener("keydown", (event) => {
    const plain = !event.ctrlKey && !event.altKey && !event.metaKey && !event.shiftKey;
    if (event.key === "Escape") leave();
    else if (plain && event.key in KEYS && shown !== null) {
      event.preventDefault();
      move(KEYS[event.key]);
    }
  });
  drawing.addEventListener("blur", leave);
  drawing.addEventListener("pointermove", () => picked >= 0 && leave());

  /* --- choices --- */

  function step(by) {
    pick.selectedIndex = Math.max(0, Math.min(pick.options.length - 1, pick.selectedIndex + by));
    show();
  }
  byId("layer-before").addEventListener("click", () => step(-1));
  byId("layer-after").addEventListener("click", () => step(1));
  pick.addEventListener("change", () => show());
  for (const input of document.querySelectorAll("#picks input, .controls input")) {
    input.addEventListener("change", () => show());
  }
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => show(true));

  function fromAddress() {
    const wanted = /^#layer-(\d+)$/.exec(location.hash);
    if (wanted !== null && [...pick.options].some((o) => o.value === wanted[1])) {
      pick.value = wanted[1];
    }
  }
  window.addEventListener("hashchange", () => {
    fromAddress();
    show();
  });

  start.domain = document.querySelector("input[name=domain][checked]").value;
  plots.before(live);
  figure.querySelector("figcaption").after(byId("picks"));
  byId("picks").hidden = false;
  byId("still").hidden = true;
  fromAddress();
  show();
})();
