// What the inbox gains with a script beside what form.js does: a list that stays fresh, and single-key shortcuts.
// Everything works without it.
(() => {
  "use strict";

  const { $, $$, store, say, counted, prepare, writeTimes } = window.rejoinder;
  const announcer = $("#announcer");
  const announce = (text) => { if (announcer) announcer.textContent = text; };

  document.addEventListener("click", (event) => {
    if (event.target.closest("[data-help]")) openHelp();
    for (const menu of $$(".menu[open]")) if (!menu.contains(event.target)) menu.open = false;
  });
  document.addEventListener("keydown", (event) => {
    if (event.key === "Escape") for (const menu of $$(".menu[open]")) { menu.open = false; $("summary", menu).focus(); }
  });

  // Shortcuts. They rest while somebody types, while a dialog is open, and where they were switched off.

  const help = $("#help");
  const openHelp = () => { if (help && !help.open) help.showModal(); };
  const shortcutsOn = () => store.get("rejoinder.shortcuts") !== "off";
  const typing = (target) => target.closest?.("input:not([type=radio]):not([type=checkbox]), textarea, select, [contenteditable]");

  function move(step) {
    const rows = $$("#queue li > a");
    if (!rows.length || !rows[0].offsetParent) return;
    const at = rows.indexOf(document.activeElement);
    const from = at >= 0 ? at : rows.findIndex((row) => row.hasAttribute("aria-current")) - (step > 0 && !document.body.classList.contains("on-question") ? 1 : 0);
    rows[Math.min(Math.max(from + step, 0), rows.length - 1)].focus();
  }

  function choose(key) {
    const control = $$(`.answer-form [data-key="${key}"]`).find((one) => one.offsetParent);
    if (!control) return false;
    control.focus();
    control.click();
    return true;
  }

  document.addEventListener("keydown", (event) => {
    if (event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey || event.repeat && !"jk".includes(event.key)) return;
    if (!shortcutsOn() || typing(event.target) || $("dialog[open]")) return;
    const act = {
      j: () => move(1), k: () => move(-1), "?": openHelp,
      "/": () => { const search = $("#search"); if (!search?.offsetParent) return false; search.focus(); search.select(); return true; },
    }[event.key] ?? (/^[1-9yn]$/.test(event.key) ? () => choose(event.key) : null);
    if (act && act() !== false) event.preventDefault();
  });
  const switchBox = $("#shortcuts-on");
  if (switchBox) {
    switchBox.checked = shortcutsOn();
    switchBox.addEventListener("change", () => store.set("rejoinder.shortcuts", switchBox.checked ? "on" : "off"));
  }

  // Staying fresh. What the stream says is enough to count, to offer new questions and to mark those that ended, so a
  // change costs the server nothing a browser; the list is fetched when a look at it is wanted, or nothing else will do.

  const queue = $("#queue");
  let bar = $("#new-bar");
  const fresh = new Set();

  const rowOf = (id) => $$("li[data-id]", queue).find((row) => row.dataset.id === id);
  const listed = () => $$("li[data-id]", queue).map((row) => row.dataset.id);

  function showCount(open, label) {
    const holder = $("[data-count]", queue);
    if (!holder) return;
    holder.dataset.count = open;
    holder.dataset.label = label;
    for (const badge of $$("[data-open-count]")) badge.textContent = label;
    document.title = document.title.replace(/^\(\d+\+?\) /, "");
    if (open) document.title = `(${open > 1000 ? "1000+" : open}) ${document.title}`;
  }

  function countBy(step) {
    const holder = $("[data-count]", queue);
    if (!holder || holder.dataset.label.includes("+")) return;
    const open = Math.max(0, Number(holder.dataset.count) + step);
    showCount(open, String(open));
  }

  function showBar() {
    if (!fresh.size) { bar.hidden = true; return; }
    const text = counted("fresh", fresh.size);
    if (!bar.hidden && bar.textContent === text) return;
    bar.textContent = text;
    bar.hidden = false;
    announce(counted("freshSaid", fresh.size));
  }

  // What has ended stays where it is until the list is drawn anew: nothing moves under the reader's eyes.
  function markGone(row, gone) {
    row.classList.toggle("gone", gone);
    const mark = $(".ended", row);
    if (gone && !mark) $(".meta", row).append(Object.assign(document.createElement("span"), { className: "ended unseen", textContent: say("gone") }));
    else if (!gone) mark?.remove();
  }

  function markChosen() {
    const id = $(".question")?.dataset.id;
    for (const row of $$("li[data-id]", queue)) {
      row.classList.toggle("chosen", row.dataset.id === id);
      if (row.dataset.id === id) $("a", row).setAttribute("aria-current", "true");
      else $("a", row).removeAttribute("aria-current");
    }
  }

  function putQueue(root) {
    const focused = document.activeElement?.closest?.("#queue li")?.dataset.id;
    queue.replaceChildren(...root.childNodes);
    markChosen();
    writeTimes(queue);
    fresh.clear();
    bar.hidden = true;
    if (focused) $("a", rowOf(focused) ?? document.createElement("i"))?.focus({ preventScroll: true });
  }

  async function fragment(path) {
    const response = await fetch(path, { headers: { "x-fragment": "yes" }, credentials: "same-origin" });
    if (response.status === 401) { stop(say("signedOut")); return null; }
    if (!response.ok) return null;
    return document.adoptNode(new DOMParser().parseFromString(await response.text(), "text/html").body);
  }

  // Compare the list with how things stand now.
  async function refresh() {
    const root = await fragment(queue.dataset.refresh);
    if (!root) return;
    const holder = $("[data-count]", root);
    const before = listed();
    const now = $$("li[data-id]", root).map((row) => row.dataset.id);
    if (!before.length) {
      if (now.length) putQueue(root);
      if (now.length) announce(counted("freshFirst", now.length));
    } else {
      for (const row of $$("li[data-id]", queue)) markGone(row, !now.includes(row.dataset.id));
      fresh.clear();
      for (const id of now) if (!before.includes(id)) fresh.add(id);
      showBar();
    }
    showCount(Number(holder.dataset.count), holder.dataset.label);
  }

  bar?.addEventListener("click", async () => {
    const root = await fragment(queue.dataset.refresh).catch(() => null);
    if (!root) return;
    const holder = $("[data-count]", root);
    putQueue(root);
    showCount(Number(holder.dataset.count), holder.dataset.label);
    $("#queue li > a")?.focus({ preventScroll: true });
  });

  const isLive = () => queue.dataset.live === "yes";

  function added(event) {
    const id = JSON.parse(event.data).interaction_id;
    countBy(1);
    if (!isLive() || rowOf(id)) return;
    // Whether a filter lets it through, the server knows; and an empty list shows it at once.
    if (queue.dataset.filtered === "yes" || !listed().length) { changed(); return; }
    fresh.add(id);
    showBar();
  }

  function ended(event) {
    const id = JSON.parse(event.data).interaction_id;
    countBy(-1);
    if (fresh.delete(id)) showBar();
    const row = isLive() && rowOf(id);
    if (row) markGone(row, true);
    if ($(".question")?.dataset.id === id) changed();
  }

  // The open question ended, or was ended by somebody else.
  async function refreshPane() {
    const article = $(".question");
    if (!article || article.dataset.open !== "yes" || $(".answer-form[data-sent]", article)) return;
    const id = article.dataset.id;
    const root = await fragment(article.dataset.pane);
    const next = root && $(".question", root);
    if (!next || $(".question")?.dataset.id !== id || next.dataset.open === "yes") return;
    const field = $("#answer", article);
    const typed = field && article.dataset.sensitive === "no" && field.value.trim() ? field.value : null;
    const held = article.contains(document.activeElement);
    article.replaceWith(next);
    prepare(next);
    const outcome = $("#outcome", next);
    if (typed && outcome) {
      const kept = Object.assign(document.createElement("pre"), { className: "json", tabIndex: 0, textContent: typed });
      const line = Object.assign(document.createElement("p"), { textContent: say("written") });
      outcome.append(line, kept);
    }
    announce(`${$("h2", outcome)?.textContent ?? say("ended")}.`);
    if (held) outcome?.focus();
  }

  // An inbox that waits beside an empty list shows the first question as it comes.
  async function fillEmpty() {
    if ($(".question") || !$(".empty-detail") || !matchMedia("(min-width: 960px)").matches) return;
    const first = $("#queue li > a");
    if (!first) return;
    const url = new URL(first.href);
    const root = await fragment(`${url.pathname}/pane${url.search}`);
    const article = root && $(".question", root);
    if (!article || $(".question")) return;
    $(".empty-detail").replaceWith(article);
    prepare(article);
    markChosen();
  }

  let source = null;
  let timer = 0;
  let busy = false;
  let again = false;

  // Several wishes at once are one look; a little chance keeps many browsers from asking in the same instant.
  function changed(within = 120) {
    again = true;
    if (busy || timer) return;
    timer = setTimeout(async () => {
      timer = 0; busy = true; again = false;
      try {
        if (isLive()) await refresh();
        await refreshPane();
        if (isLive()) await fillEmpty();
      } catch { setTimeout(changed, 3000); return; } finally { busy = false; }
      if (again) changed();
    }, 20 + Math.random() * within);
  }

  function stop(text) {
    source?.close();
    announce(text);
    if (!bar) return;
    const note = bar.cloneNode(false);
    note.removeAttribute("id");
    note.hidden = false;
    note.textContent = text;
    note.addEventListener("click", () => location.reload());
    bar.replaceWith(note);
    bar = note;
  }

  function listen() {
    source = new EventSource("/api/interactions/stream");
    let opened = false;
    // What happened between the drawing of this page and the stream; after a break the stream itself tells what was
    // missed, and a look makes sure of it.
    source.onopen = () => { changed(opened ? 2000 : 120); opened = true; };
    source.addEventListener("interaction.add", added);
    source.addEventListener("interaction.answered", ended);
    source.addEventListener("interaction.removed", ended);
    source.addEventListener("interaction.reset", () => changed(1000));
    source.onerror = () => { if (source.readyState === EventSource.CLOSED) setTimeout(relisten, 5000); };
  }

  async function relisten() {
    try {
      if (await fragment(queue.dataset.refresh)) listen();
      else if (source) setTimeout(relisten, 15000);
    } catch { setTimeout(relisten, 5000); }
  }

  if (queue && "EventSource" in window) {
    listen();
    addEventListener("pagehide", () => source?.close());
    addEventListener("pageshow", (event) => { if (event.persisted) listen(); });
    document.addEventListener("visibilitychange", () => { if (!document.hidden) { writeTimes(); changed(); } });
  }
})();
