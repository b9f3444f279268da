// Moves about a page that is complete without it: opens steps and panels, follows links to a line, takes keys,
// filters the list, and on a running run puts in what the server has rendered anew. It never makes markup.
"use strict";
(() => {
  const root = document.documentElement, page = document.body.dataset.page;
  const one = (selector, within = document) => within.querySelector(selector);
  const all = (selector, within = document) => [...within.querySelectorAll(selector)];
  const known = { j: 1, k: -1 };
  const panelKeys = { s: "source", d: "diff", a: "answer", p: "prompt", e: "evidence" };
  const themes = ["", "light", "dark"];
  let panel = "source"; // the one that was chosen last, kept from step to step

  root.classList.add("js");

  // ---- light and dark
  function stored(value) {
    try {
      if (value === undefined) return localStorage.getItem("theme") || "";
      localStorage.setItem("theme", value);
    } catch { /* a file opened from disk may have no storage */ }
    return value || "";
  }
  function dress(theme) {
    if (theme) root.dataset.theme = theme; else delete root.dataset.theme;
  }
  function nextTheme() {
    const theme = themes[(themes.indexOf(root.dataset.theme || "") + 1) % themes.length];
    dress(theme);
    stored(theme);
    say(`colours: ${theme || "as the system has them"}`);
  }
  function say(words) { one("#news").textContent = words; }

  // ---- fetching what the server renders; a document parsed this way runs nothing
  async function rendered(url) {
    const answer = await fetch(url, { headers: { Accept: "text/html" } });
    if (!answer.ok) throw new Error(`${answer.status}`);
    return scripted(new DOMParser().parseFromString(await answer.text(), "text/html"));
  }
  // What is meant for a browser without scripts is elements to this parser, and would be shown.
  function scripted(page) {
    for (const other of all("noscript", page)) other.remove();
    return page;
  }

  // ---- steps and panels
  const links = () => all("#steps a");
  const current = () => one("#steps a[aria-current]");
  // In a tree of rounds it need not be the last one.
  const newest = () => one("#steps a[data-newest]") || links().at(-1);
  const anchorOf = (link) => link.getAttribute("href").slice(1);

  function target(hash) {
    const parts = /^#((?:attempt|round)-\d+)(?:-(L\d+|source|diff|answer|prompt|evidence))?$/.exec(hash);
    return parts ? { anchor: parts[1], part: parts[2] || "" } : null;
  }

  async function article(link) {
    const anchor = anchorOf(link);
    const there = document.getElementById(anchor);
    if (there || !link.dataset.src) return there;
    const made = one("article", await rendered(link.dataset.src));
    // Asked for twice, it is put in once.
    return document.getElementById(anchor) || one("#details").appendChild(document.adoptNode(made));
  }

  function choosePanel(detail, name) {
    const tabs = all("[role=tab]", detail);
    const chosen = tabs.find((tab) => tab.dataset.panel === name) || tabs[0];
    for (const tab of tabs) {
      tab.setAttribute("aria-selected", String(tab === chosen));
      tab.tabIndex = tab === chosen ? 0 : -1;
      document.getElementById(tab.getAttribute("aria-controls")).hidden = tab !== chosen;
    }
    return chosen;
  }

  let wanted = 0;
  async function show(anchor, part, { scroll = false } = {}) {
    const link = links().find((candidate) => anchorOf(candidate) === anchor);
    if (!link) return;
    const turn = ++wanted;
    for (const other of links()) other.removeAttribute("aria-current");
    link.setAttribute("aria-current", "true");
    link.scrollIntoView({ block: "nearest" });
    let detail;
    try { detail = await article(link); } catch { say("the server does not answer"); return; }
    // Somebody went on while it was fetched.
    if (!detail || turn !== wanted) return;
    for (const other of all("#details > article")) other.hidden = other !== detail;
    const isLine = /^L\d+$/.test(part);
    if (part && !isLine) panel = part;
    choosePanel(detail, isLine ? "source" : panel);
    for (const row of all(".aimed")) row.classList.remove("aimed");
    const row = isLine && document.getElementById(`${anchor}-${part}`);
    if (row) {
      row.classList.add("aimed");
      row.scrollIntoView({ block: "center" });
    } else if (scroll && detail.getBoundingClientRect().top < 0) {
      one(".work").scrollIntoView();
    }
  }

  function follow() {
    const aim = target(location.hash);
    if (aim) return show(aim.anchor, aim.part);
    const opened = one("#details > article");
    return opened ? show(opened.id, "") : undefined;
  }

  function go(anchor, part) {
    history.replaceState(null, "", `#${anchor}${part ? `-${part}` : ""}`);
    return show(anchor, part, { scroll: !part });
  }

  function move(by) {
    const list = page === "run" ? links() : all(".runs .run");
    if (!list.length) return;
    const from = page === "run" ? list.indexOf(current()) : list.indexOf(document.activeElement);
    const next = list[Math.max(0, Math.min(list.length - 1, from + by))];
    next.focus({ preventScroll: page === "run" });
    if (page === "run") go(anchorOf(next), "");
  }

  function press(tab) {
    const detail = tab.closest("article");
    panel = tab.dataset.panel;
    choosePanel(detail, panel).focus({ preventScroll: true });
    history.replaceState(null, "", `#${detail.id}-${panel}`);
  }

  // ---- keys and clicks
  function onKey(event) {
    if (event.ctrlKey || event.metaKey || event.altKey || one("dialog[open]")) return;
    if (event.target.matches("input, select, textarea")) {
      if (event.key === "Escape") event.target.blur();
      return;
    }
    if (event.target.matches("[role=tab]") && /^Arrow(Left|Right)$/.test(event.key)) {
      const tabs = all("[role=tab]", event.target.parentElement);
      const step = event.key === "ArrowRight" ? 1 : tabs.length - 1;
      press(tabs[(tabs.indexOf(event.target) + step) % tabs.length]);
    } else if (event.key in known) {
      move(known[event.key]);
    } else if (event.key in panelKeys && page === "run" && current()) {
      go(anchorOf(current()), panelKeys[event.key]);
    } else if (event.key === "?") {
      one("#keys").showModal();
    } else if (event.key === "t") {
      nextTheme();
    } else if (event.key === "/" && page === "runs") {
      one("#filters input").focus();
    } else if (event.key === "u" && page === "run" && one(".bar nav a")) {
      one(".bar nav a").click();
    } else {
      return;
    }
    event.preventDefault();
  }

  function onClick(event) {
    const pressed = event.target.closest("[role=tab], [data-do]");
    if (pressed) {
      if (pressed.dataset.do === "theme") nextTheme();
      else if (pressed.dataset.do === "help") one("#keys").showModal();
      else press(pressed);
      return;
    }
    const link = event.target.closest('a[href^="#"]');
    const aim = link && page === "run" && target(link.getAttribute("href"));
    if (aim && !event.ctrlKey && !event.metaKey && !event.shiftKey && event.button === 0) {
      event.preventDefault();
      if (`#${aim.anchor}${aim.part ? `-${aim.part}` : ""}` !== location.hash) history.pushState(null, "", link.getAttribute("href"));
      show(aim.anchor, aim.part, { scroll: !aim.part });
    }
  }

  // ---- a run that goes on: the page is fetched again, and what is new is put in its place
  function takeOver(fresh) {
    const before = current(), wasNewest = !before || before === newest();
    const count = links().length, chosen = before && anchorOf(before);
    for (const id of ["summary", "chart", "steps", "results"]) {
      const [old, made] = [document.getElementById(id), fresh.getElementById(id)];
      if (old && made && !old.isEqualNode(made)) old.replaceWith(document.adoptNode(made));
    }
    if (page === "bench") { say(one("#summary .count").textContent); return; }
    for (const made of all("#details > article", fresh)) {
      const old = document.getElementById(made.id);
      if (!old) one("#details").append(document.adoptNode(made));
    }
    // A round under way becomes an attempt, or grows: what is shown of it is out of date.
    const there = new Set(links().map(anchorOf));
    for (const old of all('#details > article[id^="round-"]')) old.remove();
    for (const old of all("#details > article")) if (!there.has(old.id)) old.remove();
    const last = newest();
    const next = wasNewest || !there.has(chosen) ? last && anchorOf(last) : chosen;
    if (next) show(next, target(location.hash)?.anchor === next ? target(location.hash).part : "");
    if (links().length !== count && last) say(`new: ${last.innerText.replace(/\s+/g, " ")}`);
  }

  function listen(url) {
    const stream = new EventSource(url);
    let busy = false, again = false;
    async function refresh() {
      if (busy) { again = true; return; }
      busy = true;
      do {
        again = false;
        try { takeOver(await rendered(location.pathname)); } catch { say("the server does not answer"); }
      } while (again);
      busy = false;
    }
    stream.addEventListener("changed", refresh);
    stream.addEventListener("ended", () => { stream.close(); refresh(); });
    addEventListener("pagehide", () => stream.close());
  }

  // ---- the list of runs is filtered by the server, without a new page
  function filtering(form) {
    let timer, turn = 0;
    async function apply() {
      const mine = ++turn;
      const asked = [...new FormData(form)].filter(([name, value]) => value && !(name === "sort" && value === "date"));
      const url = `/?${new URLSearchParams(asked)}`;
      let fresh;
      try { fresh = await rendered(url); } catch { say("the server does not answer"); return; }
      if (mine !== turn) return;
      one("#results").replaceWith(document.adoptNode(one("#results", fresh)));
      history.replaceState(null, "", url);
      say(one("#results .count").textContent);
    }
    form.addEventListener("input", () => { clearTimeout(timer); timer = setTimeout(apply, 120); });
    form.addEventListener("submit", (event) => { event.preventDefault(); apply(); });
  }

  dress(stored());
  scripted(document);
  document.addEventListener("keydown", onKey);
  document.addEventListener("click", onClick);
  if (page === "run") {
    addEventListener("hashchange", follow);
    addEventListener("popstate", follow);
    follow();
  }
  if (page === "runs") filtering(one("#filters"));
  if (document.body.dataset.live) listen(document.body.dataset.live);
})();
