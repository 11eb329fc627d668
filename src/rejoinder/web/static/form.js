// What a form gains with a script: times in the reader's zone, drafts, fields that show when they count, and faults told
// before anything is sent. Everything works without it, and the server decides whatever this says.
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

  // Words: the page brings them in its language.

  const page = document.documentElement;
  const words = JSON.parse(page.dataset.words || "{}");
  const fill = (text, values) => (text ?? "").replace(/\{(\w+)\}/g, (whole, name) => values[name] ?? whole);
  const say = (key, values = {}) => fill(words[key], values);
  const counted = (key, number) => { const count = Math.round(number); return fill(words[key]?.[count === 1 ? 0 : 1], { count }); };

  // Times

  const zoned = (options) => new Intl.DateTimeFormat(page.lang === "en" ? undefined : page.lang, options);
  const day = { year: "numeric", month: "short", day: "numeric", hour: "2-digit", minute: "2-digit" };
  const formats = {
    absolute: zoned({ ...day, timeZoneName: "short" }),
    exact: zoned({ ...day, second: "2-digit", timeZoneName: "short" }),
  };

  function distance(seconds) {
    const minutes = Math.abs(seconds) / 60;
    if (minutes < 1) return say("moment");
    if (minutes < 90) return counted("minutes", minutes);
    return minutes / 60 < 36 ? counted("hours", minutes / 60) : counted("days", minutes / 1440);
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
          : say(seconds >= 0 ? "ahead" : "ago", { distance: distance(seconds) });
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
    // A page that was drawn again, with faults or after a button of its own, holds what was typed already.
    if (!kept || $(".summary, [data-typed], [autofocus]", form)) return;
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

  // What the form's own fields hold, as the server would read them. A field that holds nothing is undefined.

  const json = (text) => { try { return JSON.parse(text); } catch { return text; } };
  const filled = (root) => typedFields(root).filter((field) => (field.type === "radio" || field.type === "checkbox" ? field.checked : true) && field.value !== "");
  const trimmed = new Set(["email", "url", "date", "time"]);

  function valueOf(field) {
    const set = filled(field);
    switch (field.dataset.kind) {
      case "radios": case "select": case "boolean": return set.length ? json(set[0].value) : undefined;
      case "checkbox": return set.length ? true : undefined;
      case "checkboxes": return set.length ? set.map((one) => json(one.value)) : undefined;
      case "lines": case "entries": {
        const lines = set.flatMap((one) => one.value.split("\n")).map((line) => line.trim()).filter(Boolean);
        return lines.length ? lines : undefined;
      }
      case "integer": case "number": {
        const text = set.length ? set[0].value.trim() : "";
        return text === "" ? undefined : Number.isNaN(Number(text)) ? text : Number(text);
      }
      case "text": case "textarea": {
        if (!set.length) return undefined;
        const text = trimmed.has(set[0].type) ? set[0].value.trim() : set[0].value;
        return text === "" ? undefined : text;
      }
      default: return set.length ? json(set[0].value) : undefined;
    }
  }

  // Fields that count only where another one says so. What is hidden is not sent.

  const fieldsOf = (root) => new Map($$(".field[data-field]", root).map((field) => [field.dataset.field, field]));
  const alike = (one, other) => JSON.stringify(one) === JSON.stringify(other);

  function counts(fields, name) {
    const field = fields.get(name);
    if (!field?.dataset.when) return field !== undefined;
    const when = JSON.parse(field.dataset.when);
    if (!counts(fields, when.field)) return false;
    const value = valueOf(fields.get(when.field));
    if (value === undefined) return false;
    return when.test === "notEmpty" || when.values.some((one) => alike(one, value));
  }

  function showWhatCounts(form) {
    const fields = fieldsOf(form);
    for (const [name, field] of fields) {
      if (!field.dataset.when) continue;
      const hide = !counts(fields, name);
      field.hidden = hide;
      for (const control of $$("input, select, textarea, button", field)) control.disabled = hide;
    }
  }

  // Faults, told before anything is sent. The sentences come with the page.

  const days = (date) => Date.parse(`${date}T00:00Z`) / 86400e3;
  const isDate = (text) => /^\d{4}-\d\d-\d\d$/.test(text ?? "") && !Number.isNaN(days(text));
  const toTheSecond = (time) => (time.length === 5 ? `${time}:00` : time);
  const number = /^[+-]?(?:\d+(?:\.\d*)?|\.\d+)(?:e[+-]?\d{1,4})?$/i;

  // Each says whether the value is faulty; what it cannot judge it leaves to the server.
  const faulty = {
    integer: (text) => !number.test(text) || !Number.isInteger(Number(text)) && Number.isFinite(Number(text)),
    number: (text) => !number.test(text),
    least: (text, limit) => number.test(text) && Number(text) < limit,
    most: (text, limit) => number.test(text) && Number(text) > limit,
    email: (text) => !/^[^\s@]+@[^\s@]+\.[^\s@.]+$/.test(text),
    date: (text) => !isDate(text),
    time: (text) => !/^([01]\d|2[0-3]):[0-5]\d/.test(text),
    shortest: (text, limit) => [...text].length < limit,
    longest: (text, limit) => [...text].length > limit,
    fewest: (list, limit) => list.length < limit,
    several: (list, limit) => list.length > limit,
    from: (text, date) => isDate(text) && text < date,
    until: (text, date) => isDate(text) && text > date,
    closed: (text, closed) => isDate(text) && (closed.days.includes(text) || closed.weekdays.includes((new Date(`${text}T00:00Z`).getUTCDay() + 6) % 7)),
    after: (text, start, of) => isDate(text) && isDate(of(start)) && text < of(start),
    span: (text, span, of) => {
      if (!isDate(text) || !isDate(of(span.start)) || text < of(span.start)) return false;
      const length = days(text) - days(of(span.start)) + 1;
      return length < (span.least ?? 1) || length > (span.most ?? Infinity);
    },
    later: (text, times, of) => isDate(of(times.start)) && of(times.start) === of(times.end) && of(times.time) !== undefined
      && toTheSecond(text) < toTheSecond(of(times.time)),
  };

  function faultOf(field, of) {
    if (!field.dataset.checks || field.hidden) return null;
    const numeric = field.dataset.kind === "integer" || field.dataset.kind === "number";
    const broken = typedFields(field).some((control) => control.validity?.badInput);
    let value = valueOf(field);
    if (numeric && value !== undefined) {
      value = filled(field)[0].value.trim();
      // Digits of other scripts, and numbers with a comma: the server knows better.
      if (!/^[\x20-\x2b\x2d-\x7e]*$/.test(value)) return null;
    }
    for (const [kind, limit, sentence] of JSON.parse(field.dataset.checks)) {
      if (kind === "required") { if (value === undefined && !broken) return sentence; continue; }
      if (broken && (kind === "date" || kind === "time" || kind === "email")) return sentence;
      if (value === undefined) continue;
      if (faulty[kind]?.(value, limit, of)) return sentence;
    }
    return null;
  }

  const targetOf = (field) => {
    const grouped = ["radios", "boolean", "checkboxes", "checkbox", "entries"].includes(field.dataset.kind);
    return document.getElementById(field.dataset.control + (grouped ? "-0" : ""));
  };

  function mark(field, sentence) {
    const box = $(".control, .group", field);
    const id = `${field.dataset.control}-error`;
    const described = document.getElementById(field.dataset.control) ?? targetOf(field);
    document.getElementById(id)?.remove();
    const about = (described?.getAttribute("aria-describedby") ?? "").split(" ").filter((one) => one && one !== id);
    box.classList.toggle("with-fault", sentence !== null);
    if (sentence !== null) {
      const told = Object.assign(document.createElement("p"), { className: "fault", id, textContent: sentence });
      const above = $$(":scope > label:not(.tick), :scope > legend, :scope > .hint", box).pop();
      if (above) above.after(told); else box.prepend(told);
      about.push(id);
    }
    if (!described) return;
    if (about.length) described.setAttribute("aria-describedby", about.join(" ")); else described.removeAttribute("aria-describedby");
    if (described.matches("input, select, textarea")) {
      if (sentence !== null) described.setAttribute("aria-invalid", "true"); else described.removeAttribute("aria-invalid");
    }
  }

  function readerOf(form) {
    const fields = fieldsOf(form);
    return (name) => (counts(fields, name) ? valueOf(fields.get(name)) : undefined);
  }

  // True where something is wrong: then it is told, and nothing is sent.
  function tellFaults(form) {
    const holder = $("[data-form]", form);
    if (!holder) return false;
    const of = readerOf(form);
    const found = [];
    for (const field of $$(".step:not([hidden]) .field[data-checks]", form)) {
      const sentence = faultOf(field, of);
      mark(field, sentence);
      if (sentence !== null) found.push([field, sentence]);
    }
    $(".summary", holder)?.remove();
    if (!found.length) return false;
    const heading = fill(found.length === 1 ? holder.dataset.one : holder.dataset.many, { count: found.length });
    const summary = Object.assign(document.createElement("div"), { className: "notice bad summary", id: "faults", tabIndex: -1 });
    summary.setAttribute("role", "alert");
    const list = document.createElement("ul");
    found.forEach(([field, sentence], index) => {
      const link = Object.assign(document.createElement("a"), { href: `#${targetOf(field)?.id ?? ""}`, textContent: `${field.dataset.label}: ${sentence}` });
      const line = Object.assign(document.createElement("li"), { id: `fault-${index}` });
      line.append(link);
      list.append(line);
    });
    summary.append(Object.assign(document.createElement("h2"), { textContent: heading }), list);
    holder.prepend(summary);
    summary.focus();
    return true;
  }

  // A fault goes away as soon as it is mended.
  function recheck(form, target) {
    const field = target.closest?.(".field[data-checks]");
    if (field && $(".fault", field) && faultOf(field, readerOf(form)) === null) mark(field, null);
  }

  function prepare(root) {
    writeTimes(root);
    for (const zone of $$("[data-zone]:not([data-set])", root)) {
      zone.value = ownOffset();
      const picker = zone.parentElement.firstElementChild;
      // Summer time: the offset is that of the day that was picked, until somebody types another.
      picker.addEventListener("change", () => { if (picker.value && !zone.dataset.set) zone.value = ownOffset(new Date(picker.value)); });
      zone.addEventListener("input", () => { zone.dataset.set = ""; });
    }
    for (const form of $$("form", root).filter((one) => one.matches(".answer-form") || $("[data-form]", one))) {
      restoreDraft(form);
      showWhatCounts(form);
      form.addEventListener("input", (event) => { keepDraft(form); showWhatCounts(form); recheck(form, event.target); });
      form.addEventListener("change", (event) => { showWhatCounts(form); recheck(form, event.target); });
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
    if (button?.dataset.unchecked === undefined && tellFaults(form)) { event.preventDefault(); return; }
    form.dataset.sent = "yes";
    form.setAttribute("aria-busy", "true");
  }
  // Back from the next page, the form can be sent again.
  addEventListener("pageshow", () => { for (const form of $$("[data-sent]")) { delete form.dataset.sent; form.removeAttribute("aria-busy"); } });

  document.addEventListener("click", (event) => {
    const reveal = event.target.closest("[data-reveal]");
    if (!reveal) return;
    const field = document.getElementById(reveal.getAttribute("aria-controls"));
    const show = field.type === "password";
    reveal.dataset.show ??= reveal.textContent;
    field.type = show ? "text" : "password";
    reveal.textContent = show ? reveal.dataset.hide : reveal.dataset.show;
    reveal.setAttribute("aria-pressed", String(show));
  });

  window.rejoinder = { $, $$, store, say, counted, prepare, writeTimes };
  forgetOldDrafts();
  prepare(document);
  setInterval(writeTimes, 30000);
})();
