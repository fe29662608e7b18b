// Search and filter claims, keep the view in the address, unfold lineages. Without it all claims are there.
"use strict";
(() => {
  const CLAIMS = "details.statement[id], .cases > li[id]";
  const form = document.getElementById("filters");
  const fields = [...form.elements].filter((one) => one.name);
  const found = form.querySelector("output");
  const nothing = document.getElementById("nothing");
  const others = document.getElementById("others"); // the page of the other claims
  const page = others.getAttribute("href");
  const opened = new Set(); // statements that a filter opened, not the reader
  const sections = [...document.querySelectorAll("section[data-p]")].map((section) => ({
    section,
    paper: section.dataset.p,
    statements: [...section.querySelectorAll("details.statement")].map((statement) => ({
      statement,
      head: item(statement, statement),
      cases: [...statement.querySelectorAll("li[id]")].map((one) => item(one, statement)),
    })),
  }));

  const untested = [...document.querySelectorAll("#untested li")].map((element) => ({
    element,
    paper: element.dataset.p,
    by: "ours" in element.dataset ? "us" : "authors",
    text: plain(`${element.dataset.p} ${element.textContent}`),
  }));

  // A case has the words of its statement, and its status and unit where it says nothing else.
  function item(element, statement) {
    const badge = element.querySelector(".verdict"); // its class is the group of its word
    const verdict = badge ? [badge.classList[1], badge.textContent.slice(2)] : ["none", "not tested"];
    const claim = Boolean(element.id); // not that of cases alone, which is on the other page
    const own = [...statement.children].filter((one) => one.matches("summary, dl"));
    const texts = element === statement ? own : [element, ...own];
    const status = element.dataset.s ?? statement.dataset.s ?? "";
    const by = "ours" in statement.dataset ? "us" : "authors";
    const models = (element.dataset.m ?? statement.dataset.m ?? "").split(" ");
    return { element, verdict, claim, status, by, models, unit: element.dataset.u ?? statement.dataset.cases,
      text: plain([element.id, status, ...texts.map((one) => one.textContent)].join(" ")),
      own: plain(element.textContent) };
  }

  // Minus signs and Greek letters as they are printed, and as they are typed.
  function plain(text) {
    return text.toLowerCase().replace(/[\u2212\u2010\u2013]/g, "-").replace(/\s+/g, " ")
      .replace(/[\u03c1\u03bb\u03b6]/g, (letter) => ({ "\u03c1": "rho", "\u03bb": "lambda", "\u03b6": "zeta" })[letter]);
  }

  // The words of a search, each as a test of a text: it finds words that begin so. What is quoted,
  // and a word with its number ("figure 3"), is a phrase, and a number is whole.
  function tests(query) {
    return (plain(query).match(/"[^"]+"|[a-z]+\.? \d[\d.]*(?= |$)|[^\s"]+/g) ?? []).map((word) => {
      const text = word.replaceAll('"', "").trim().replace(/[.*+?^${}()|[\]\\]/g, "\\$&");
      const pattern = new RegExp(`(?<![a-z0-9.])${text}${/\d$/.test(text) ? "(?![\\d]|\\.\\d)" : ""}`);
      return (of) => pattern.test(of);
    });
  }

  function view() {
    return Object.fromEntries([...new FormData(form)].filter(([, value]) => value !== ""));
  }

  function apply() {
    const wanted = view();
    const words = tests(wanted.q || "");
    const verdict = wanted.verdict;
    // The id of a statement finds it and its cases, not others that have it in their text.
    const only = wanted.q && sections.flatMap((one) => one.statements)
      .find(({ statement }) => statement.id && statement.id === wanted.q.trim())?.statement;
    const model = wanted.model && String(form.elements.model.selectedIndex);
    const narrow = Boolean(words.length || verdict || wanted.status || wanted.by || wanted.unit || model);
    const matches = (one) => only ? only.contains(one.element) : words.every((word) => word(one.text));
    const fits = (one) => one.claim && matches(one) && (!model || one.models.includes(model)) &&
      (!verdict || one.verdict.includes(verdict)) && (!wanted.status || one.status === wanted.status) &&
      (!wanted.by || one.by === wanted.by) && (!wanted.unit || one.unit === wanted.unit);
    let shown = 0;
    for (const { section, paper, statements } of sections) {
      const ofPaper = !wanted.paper || wanted.paper === paper;
      let any = false;
      for (const { statement, head, cases } of statements) {
        const headFits = ofPaper && fits(head);
        let fitting = 0;
        let named = false; // whether a case itself has a word of the search
        for (const one of cases) {
          const here = ofPaper && !wanted.overall && fits(one);
          one.element.hidden = !here;
          fitting += here;
          named ||= here && (only || words.some((word) => word(one.own)));
        }
        statement.hidden = !headFits && fitting === 0;
        any ||= !statement.hidden;
        shown += headFits + fitting;
        if (narrow && fitting > 0 && (named || !headFits) && !statement.open) {
          statement.open = true;
          opened.add(statement);
        } else if (!narrow && opened.delete(statement)) {
          statement.open = false;
        }
      }
      section.hidden = !any;
    }
    let left = 0; // statements that are not tested
    for (const one of untested) {
      const fits = !only && !verdict && !wanted.status && !wanted.unit && !model &&
        (!wanted.paper || one.paper === wanted.paper) && (!wanted.by || one.by === wanted.by) &&
        words.every((word) => word(one.text));
      one.element.hidden = !fits;
      left += fits;
    }
    found.textContent = `${shown} found` + (untested.length ? `, ${left} more among what is not tested` : "");
    nothing.hidden = shown > 0;
    const fragment = new URLSearchParams(wanted).toString();
    others.href = page + (fragment ? `#${fragment}` : "");
  }

  function fill(values) {
    for (const field of fields) {
      const value = values.get(field.name) ?? "";
      if (field.type === "checkbox") field.checked = value === "1";
      else if (field.type === "search") field.value = value;
      else field.value = [...field.options].some((one) => one.value === value) ? value : "";
    }
  }

  // A view, as `q=…&paper=…`; or the address of one claim, which then is open.
  function read() {
    const fragment = location.hash.slice(1);
    if (fragment.includes("=") || fragment === "") {
      fill(new URLSearchParams(fragment));
      apply();
      return;
    }
    let target = null;
    try {
      target = document.getElementById(decodeURIComponent(fragment));
    } catch {} // not an address
    if (target === null || !target.matches(CLAIMS)) {
      // It may be one that was not attempted; from there nothing leads back.
      const known = sections.some(({ paper }) => fragment.startsWith(`${paper}-`));
      if (target === null && known && page === "not-tested.html") {
        location.replace(`${page}#${fragment}`);
        return;
      }
      apply();
      return;
    }
    fill(new URLSearchParams());
    apply();
    for (let at = target; at; at = at.parentElement) {
      if (at.tagName === "DETAILS") at.open = true;
    }
    target.querySelector(":scope > details")?.setAttribute("open", "");
    target.scrollIntoView();
  }

  function write() {
    const fragment = new URLSearchParams(view()).toString();
    history.replaceState(null, "", location.href.split("#")[0] + (fragment ? `#${fragment}` : ""));
    apply();
  }

  function clear(event) {
    event.preventDefault();
    fill(new URLSearchParams());
    write();
  }

  form.addEventListener("input", write);
  form.addEventListener("submit", (event) => event.preventDefault());
  form.addEventListener("reset", clear);
  nothing.querySelector("button").addEventListener("click", clear);
  addEventListener("hashchange", read);

  // The jobs behind all claims: a file of its own, read when the first lineage unfolds.
  let loading = null;
  function load() {
    loading ??= new Promise((resolve, reject) => {
      const script = document.createElement("script");
      script.src = document.querySelector("main [data-graph]").dataset.graph;
      script.addEventListener("load", () => resolve(lineageOfClaims));
      script.addEventListener("error", () => reject(new Error(`${script.src} is missing`)));
      document.head.append(script);
    });
    return loading;
  }

  function make(name, text, parent) {
    const element = document.createElement(name);
    element.textContent = text;
    parent?.append(element);
    return element;
  }

  function unfolds(title, parent, fill) {
    const details = make("details", "", parent);
    make("summary", title, details);
    details.addEventListener("toggle", () => details.open && details.children.length === 1 && fill(details));
    return details;
  }

  function tree(jobs, number, setup, parent) {
    const [rule, start, files, below, , seed] = jobs[number];
    const one = make("li", rule + (seed === null ? "" : `, seed ${seed}`), parent);
    for (const [end, sha256] of files) {
      make("code", `${start}${end} ${sha256}`, one).className = "digest";
    }
    const bearing = below.filter((job) => !setup || !jobs[job][4] || jobs[job][4] === setup);
    if (bearing.length) {
      unfolds(`made from the results of ${bearing.length} ${bearing.length === 1 ? "job" : "jobs"}`, one, (details) => {
        const list = make("ul", "", details);
        bearing.forEach((job) => tree(jobs, job, setup, list));
      });
    }
  }

  function addLineage(details, number, setup) {
    if (number === undefined || details.querySelector(":scope > .lineage-tree")) return;
    const title = setup ? `Lineage: what was made for ${setup}` : "Lineage: all that its table was made from";
    const lineage = unfolds(title, details, async (inner) => {
      const list = make("ul", "", inner);
      try {
        tree(await load(), Number(number), setup, list);
      } catch (error) {
        make("li", error.message, list);
      }
    });
    lineage.className = "lineage lineage-tree";
    const cases = details.querySelector(":scope > .cases");
    if (cases) details.insertBefore(lineage, cases);
  }

  document.addEventListener("toggle", (event) => {
    const details = event.target;
    if (!details.open || !details.matches) return;
    if (details.matches("li[id] > details")) {
      addLineage(details, details.closest("details.statement").dataset.job, details.parentElement.dataset.setup);
    } else if (details.matches("details.statement")) {
      addLineage(details, details.dataset.job, details.dataset.setup);
    }
  }, true);

  form.hidden = false;
  read();
})();
