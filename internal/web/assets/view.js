// The page works without this file; it adds copying, times in the reader's own zone, and what is new while a run goes.
(() => {
  "use strict";
  const main = document.getElementById("timeline");
  const list = document.getElementById("entries");
  const status = document.getElementById("status");
  let quiet = 0;
  const say = (text) => {
    status.textContent = text;
    clearTimeout(quiet);
    if (text) quiet = setTimeout(() => { status.textContent = ""; }, 8000);
  };

  // What must stay to be read.
  const notice = (text) => { say(text); clearTimeout(quiet); };

  // What comes from the server is complete: every text in it is escaped there, as on the page itself.
  const fragment = (html) => {
    const holder = document.createElement("template");
    holder.innerHTML = html;
    return holder.content;
  };

  const times = (root) => {
    for (const time of root.querySelectorAll("time[datetime]")) {
      const at = new Date(time.dateTime);
      if (Number.isNaN(at.getTime())) continue;
      time.title = time.textContent;
      time.textContent = at.toLocaleString(undefined, { dateStyle: "medium", timeStyle: "medium" });
    }
  };

  const prepare = (root) => {
    times(root);
    for (const button of root.querySelectorAll("button.copy")) button.hidden = false;
  };
  prepare(document);

  const toClipboard = async (text) => {
    if (navigator.clipboard && window.isSecureContext) return navigator.clipboard.writeText(text);
    const area = document.createElement("textarea"); // pages of plain http have no clipboard of their own
    area.value = text;
    area.className = "unseen";
    document.body.append(area);
    area.select();
    const done = document.execCommand("copy");
    area.remove();
    if (!done) throw new Error("refused");
  };

  document.addEventListener("click", async (event) => {
    const button = event.target.closest("button.copy");
    if (!button) return;
    try {
      const response = await fetch(button.dataset.raw, { credentials: "omit" });
      if (!response.ok) throw new Error(String(response.status));
      await toClipboard(await response.text());
      button.textContent = "Copied";
      say("Copied");
    } catch {
      button.textContent = "Not copied";
      say("The text could not be copied");
    }
    setTimeout(() => { button.textContent = "Copy"; }, 2000);
  });

  // A link to an entry that is folded away opens what it is in.
  const reveal = () => {
    const target = location.hash.startsWith("#e") && document.getElementById(location.hash.slice(1));
    if (!target) return;
    for (let at = target.parentElement; at; at = at.parentElement) {
      if (at.tagName === "DETAILS") at.open = true;
    }
    target.scrollIntoView();
  };
  addEventListener("hashchange", reveal);
  reveal();

  if (main.dataset.newest !== "yes" || !window.EventSource) return;

  let last = main.dataset.last;
  let source = null;
  let again = 0;
  let over = false;
  const draft = document.getElementById("draft");
  const draftText = document.getElementById("draft-text");

  const following = () => innerHeight + scrollY > document.documentElement.scrollHeight - 160;
  const keeping = (change) => {
    const follow = following();
    change();
    if (follow) scrollTo(0, document.documentElement.scrollHeight);
  };

  const show = ({ id, html, news }) => keeping(() => {
    const item = fragment(html);
    prepare(item);
    const old = document.getElementById(id);
    if (old) {
      for (const open of old.querySelectorAll("details[open]")) {
        const same = item.querySelector(`details[data-key="${CSS.escape(open.dataset.key)}"]`);
        if (same) same.open = true;
      }
      const focused = old.contains(document.activeElement);
      old.replaceWith(item);
      if (focused) document.getElementById(id).querySelector("a.seq").focus();
    } else {
      list.append(item);
    }
    const empty = document.getElementById("empty");
    if (empty) empty.remove();
    if (news) say(`New: ${news}`);
  });

  const open = () => {
    clearTimeout(again);
    if (over || source || document.hidden) return;
    source = new EventSource(`${main.dataset.live}?after=${last}`);
    source.addEventListener("entry", (event) => {
      if (event.lastEventId) last = event.lastEventId;
      show(JSON.parse(event.data));
    });
    source.addEventListener("draft", (event) => keeping(() => {
      const { text } = JSON.parse(event.data);
      draftText.textContent = text;
      draft.hidden = text === "";
    }));
    source.addEventListener("state", (event) => {
      const facts = document.getElementById("facts");
      const state = JSON.parse(event.data);
      facts.replaceChildren(fragment(state.html));
      times(facts);
      document.body.dataset.running = state.running ? "yes" : "no";
    });
    source.addEventListener("reload", () => {
      over = true;
      close();
      notice("Much is new here: load the page again to see it.");
    });
    source.addEventListener("gone", () => {
      over = true;
      close();
      notice("This link has ended.");
    });
    source.addEventListener("error", () => {
      // The browser comes back by itself, but not after a refusal: the server may be full or starting.
      if (source && source.readyState === EventSource.CLOSED) {
        close();
        again = setTimeout(open, 10000 + Math.random() * 5000);
      }
    });
  };
  const close = () => {
    if (source) source.close();
    source = null;
  };

  // A page that nobody sees holds no stream.
  document.addEventListener("visibilitychange", () => (document.hidden ? close() : open()));
  addEventListener("pagehide", close);
  addEventListener("pageshow", open);
  open();
})();
