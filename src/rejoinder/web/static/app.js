// What the pages gain with a script: times in the reader's zone, a list that stays fresh, drafts, single-key shortcuts.
// Everything works without it.
(() => {
  "use strict";

  const $ = (selector, root = document) => root.querySelector(selector);
  const $$ = (selector, root = document) => [...root.querySelectorAll(selector)];
  const store = {
    get(key) { try { return localStorage.getItem(key); } catch { return null; } },
    set(key, value) { try { localStorage.setItem(key, value); } catch { /* full or forbidden: nothing is kept */ } },
    drop(key) { try { localStorage.removeItem(key); } catch { /* forbidden */ } },
    keys() { try { return Object.keys(localStorage); } catch { return []; } },
  };
  const announcer = $("#announcer");
  const say = (text) => { if (announcer) announcer.textContent = text; };

  // Times

  const zoned = (options) => new Intl.DateTimeFormat(undefined, options);
  const day = { year: "numeric", month: "short", day: "numeric", hour: "2-digit", minute: "2-digit" };
  const formats = {
    absolute: zoned({ ...day, timeZoneName: "short" }),
    exact: zoned({ ...day, second: "2-digit", timeZoneName: "short" }),
  };
  const count = (number, unit) => { const whole = Math.round(number); return `${whole} ${unit}${whole === 1 ? "" : "s"}`; };

  function distance(seconds) {
    const minutes = Math.abs(seconds) / 60;
    if (minutes < 1) return "less than a minute";
    if (minutes < 90) return count(minutes, "minute");
    return minutes / 60 < 36 ? `about ${count(minutes / 60, "hour")}` : `about ${count(minutes / 1440, "day")}`;
  }

  function brief(seconds) {
    const minutes = Math.abs(seconds) / 60;
    if (minutes < 1) return "<1 min";
    if (minutes < 90) return `${Math.round(minutes)} min`;
    return minutes / 60 < 36 ? `${Math.round(minutes / 60)} h` : `${Math.round(minutes / 1440)} d`;
  }

  function writeTimes(root = document) {
    for (const time of $$("time[data-style]", root)) {
      const moment = new Date(time.dateTime);
      const seconds = (moment - Date.now()) / 1000;
      const style = time.dataset.style;
      const text = formats[style] ? formats[style].format(moment)
        : style === "brief" ? brief(seconds)
          : seconds >= 0 ? `in ${distance(seconds)}` : `${distance(seconds)} ago`;
      // Written only where it changed, once a minute: a screen reader is not flooded.
      if (time.textContent !== text) time.textContent = text;
    }
  }

  // The offset beside a date and time starts as the reader's own.
  function ownOffset(moment = new Date()) {
    const minutes = -moment.getTimezoneOffset();
    if (minutes === 0) return "Z";
    const part = (number) => String(Math.trunc(Math.abs(number))).padStart(2, "0");
    return `${minutes < 0 ? "-" : "+"}${part(minutes / 60)}:${part(minutes % 60)}`;
  }

  // Drafts: what was typed survives a closed tab. Never that of a sensitive question.

  const draftKey = (form) => form.dataset.draft && `rejoinder.draft.${form.dataset.draft}`;
  const typedFields = (form) => $$("textarea, input:not([type=hidden]):not([type=password]), select", form).filter((field) => field.name);

  function keepDraft(form) {
    const key = draftKey(form);
    if (!key) return;
    const values = typedFields(form).map((field) => [field.name, field.type, field.value, field.checked === true]);
    store.set(key, JSON.stringify({ at: Date.now(), values }));
  }

  function restoreDraft(form) {
    const key = draftKey(form);
    const kept = key && store.get(key);
    // A page that was drawn again with faults or with a row more holds what was typed already.
    if (!kept || $(".summary", form) || $("[autofocus]", form)) return;
    let values;
    try { ({ values } = JSON.parse(kept)); } catch { store.drop(key); return; }
    const left = [...values];
    for (const field of typedFields(form)) {
      const choice = field.type === "radio" || field.type === "checkbox";
      const index = left.findIndex((one) => one[0] === field.name && one[1] === field.type && (!choice || one[2] === field.value));
      if (index < 0) continue;
      const [[, , value, checked]] = left.splice(index, 1);
      if (choice) field.checked = checked;
      else field.value = value;
    }
  }

  function forgetOldDrafts() {
    const monthAgo = Date.now() - 30 * 86400e3;
    for (const key of store.keys()) {
      if (!key.startsWith("rejoinder.draft.")) continue;
      try { if (!(JSON.parse(store.get(key)).at > monthAgo)) store.drop(key); } catch { store.drop(key); }
    }
  }

  // One question's pane

  function prepare(root) {
    writeTimes(root);
    for (const zone of $$("[data-zone]:not([data-set])", root)) {
      zone.value = ownOffset();
      const picker = zone.parentElement.firstElementChild;
      // Summer time: the offset is that of the day that was picked, until somebody types another.
      picker.addEventListener("change", () => { if (picker.value && !zone.dataset.set) zone.value = ownOffset(new Date(picker.value)); });
      zone.addEventListener("input", () => { zone.dataset.set = ""; });
    }
    for (const form of $$(".answer-form", root)) {
      restoreDraft(form);
      form.addEventListener("input", () => keepDraft(form));
      form.addEventListener("submit", (event) => submitOnce(form, event));
    }
    for (const article of $$(".question[data-open=no]", root)) store.drop(`rejoinder.draft.${article.dataset.id}`);
    const focus = $("[autofocus]", root);
    if (focus && document.activeElement !== focus) focus.focus({ preventScroll: false });
  }

  function submitOnce(form, event) {
    if (form.dataset.sent) { event.preventDefault(); return; }
    const button = event.submitter;
    if (button && button.dataset.fill !== undefined) {
      event.preventDefault();
      const field = $("#answer", form);
      field.value = button.dataset.fill;
      field.focus();
      keepDraft(form);
      return;
    }
    form.dataset.sent = "yes";
    form.setAttribute("aria-busy", "true");
  }
  // Back from the next page, the form can be sent again.
  addEventListener("pageshow", () => { for (const form of $$("[data-sent]")) { delete form.dataset.sent; form.removeAttribute("aria-busy"); } });

  document.addEventListener("click", (event) => {
    const reveal = event.target.closest("[data-reveal]");
    if (reveal) {
      const field = document.getElementById(reveal.getAttribute("aria-controls"));
      const show = field.type === "password";
      field.type = show ? "text" : "password";
      reveal.textContent = show ? "Hide" : "Show";
      reveal.setAttribute("aria-pressed", String(show));
    }
    if (event.target.closest("[data-help]")) openHelp();
    for (const menu of $$(".me[open]")) if (!menu.contains(event.target)) menu.open = false;
  });
  document.addEventListener("keydown", (event) => {
    if (event.key === "Escape") for (const menu of $$(".me[open]")) { menu.open = false; $("summary", menu).focus(); }
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
    const text = `${count(fresh.size, "new question")}: show`;
    if (!bar.hidden && bar.textContent === text) return;
    bar.textContent = text;
    bar.hidden = false;
    say(`${count(fresh.size, "new question")} in the list.`);
  }

  // What has ended stays where it is until the list is drawn anew: nothing moves under the reader's eyes.
  function markGone(row, gone) {
    row.classList.toggle("gone", gone);
    const mark = $(".ended", row);
    if (gone && !mark) $(".meta", row).append(Object.assign(document.createElement("span"), { className: "ended unseen", textContent: "no longer open" }));
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
    if (response.status === 401) { stop("You are signed out. Reload this page to sign in again."); return null; }
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
      if (now.length) say(`${count(now.length, "new question")}.`);
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
      const line = Object.assign(document.createElement("p"), { textContent: "What you had written:" });
      outcome.append(line, kept);
    }
    say(`${$("h2", outcome)?.textContent ?? "The question has ended"}.`);
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
    say(text);
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

  forgetOldDrafts();
  prepare(document);
  setInterval(writeTimes, 30000);
  if (queue && "EventSource" in window) {
    listen();
    addEventListener("pagehide", () => source?.close());
    addEventListener("pageshow", (event) => { if (event.persisted) listen(); });
    document.addEventListener("visibilitychange", () => { if (!document.hidden) { writeTimes(); changed(); } });
  }
})();
