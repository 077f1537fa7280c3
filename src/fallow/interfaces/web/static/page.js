"use strict";
// Keeps the page up to date: replaces the parts that have changed, and nothing else.
(() => {
  const main = document.getElementById("main");
  const live = document.getElementById("live");
  const word = document.getElementById("live-word");
  const at = document.getElementById("at");
  const said = document.getElementById("said");
  const silentFor = document.getElementById("silent-for");
  const MISSED = 3;
  const AGAIN_MS = 5000;
  const MINUTE_MS = 60000;
  let silence = null;
  let heard = performance.now();

  const say = (kind, text) => {
    live.className = `live ${kind}`;
    word.textContent = text;
    document.body.classList.toggle("stale", kind === "silent");
  };

  // A page that hears nothing when news were due three times fades, and says since when and for how long.
  const fallSilent = () => {
    const minutes = Math.floor((performance.now() - heard) / MINUTE_MS);
    say("silent", "no news since");
    silentFor.textContent = minutes ? `, for ${minutes} min` : "";
    clearTimeout(silence);
    silence = setTimeout(fallSilent, AGAIN_MS);
  };

  const place = (id, html) => {
    const part = document.getElementById(id);
    if (!part) return;
    const focused = part.contains(document.activeElement) ? document.activeElement.id : "";
    const opened = [...part.querySelectorAll("details[open][id]")].map((each) => each.id);
    part.innerHTML = html;
    for (const form of part.querySelectorAll("form[data-by]")) {
      if (form.dataset.by !== main.dataset.own) form.remove(); // the part is the same for all who watch
    }
    for (const each of opened) document.getElementById(each)?.setAttribute("open", "");
    if (focused) document.getElementById(focused)?.focus();
  };

  // The filter that the address names: what fits it may have changed with the news.
  const filter = () => {
    const { show, mine } = main.dataset;
    const tiles = [...document.querySelectorAll(".tile")];
    const isMine = (tile) => tile.dataset.users.split("/").includes(mine);
    const counted = document.getElementById("count-mine");
    if (counted) counted.textContent = tiles.filter(isMine).length;
    if (show === "all") return;
    const fits = (tile) =>
      show === "mine" ? isMine(tile) : tile.dataset.shows.split(" ").includes(show);
    const hidden = new Set();
    const slots = document.querySelectorAll(".tiles > li");
    for (const slot of slots) if (!fits(slot.querySelector(".tile"))) hidden.add(slot.dataset.of);
    for (const one of document.querySelectorAll("[data-of]")) one.hidden = hidden.has(one.dataset.of);
    const isNothing = hidden.size === slots.length;
    document.getElementById("nothing-shown").hidden = !isNothing;
    document.getElementById("day").hidden = isNothing;
    const stops = [...document.querySelectorAll("[data-on]")];
    for (const stop of stops) stop.hidden = stop.dataset.on.split(" ").every((name) => hidden.has(name));
    const noStop = document.getElementById("no-stop-shown");
    if (noStop) noStop.hidden = stops.some((stop) => !stop.hidden);
  };

  const take = (news) => {
    if ((news.edition && news.edition !== main.dataset.edition) || news.layout !== main.dataset.layout) {
      location.reload();
      return;
    }
    for (const [id, html] of Object.entries(news.parts ?? {})) place(id, html);
    for (const [key, text] of Object.entries(news.timers ?? {})) {
      for (const place of document.querySelectorAll(`[data-timer="${CSS.escape(key)}"]`)) place.textContent = text;
    }
    for (const [key, width] of Object.entries(news.levels ?? {})) {
      document.querySelector(`[data-level="${CSS.escape(key)}"]`)?.setAttribute("width", width);
    }
    filter();
    if (news.said) said.textContent = news.said.join(". ");
    at.textContent = news.at;
    say("now", "live,");
    heard = performance.now();
    silentFor.textContent = "";
    clearTimeout(silence);
    silence = setTimeout(fallSilent, MISSED * news.next_s * 1000);
  };

  const listen = () => {
    const source = new EventSource("/stream");
    source.onmessage = (event) => take(JSON.parse(event.data));
    source.onerror = () => {
      fallSilent();
      if (source.readyState === EventSource.CLOSED) setTimeout(listen, AGAIN_MS);
    };
  };
  listen();
})();
