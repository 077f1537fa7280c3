// Reads a plot where the pointer is, or with the arrow keys: the text of the step stands beside the title of its plot.
"use strict";
(() => {
  const SVG = "http://www.w3.org/2000/svg";
  const EVERY_MS = 60000;

  function made(name, kind) {
    const element = document.createElementNS(SVG, name);
    element.setAttribute("class", kind);
    return element;
  }

  function prepare(figure) {
    const picture = figure.querySelector(".plot-picture");
    const told = figure.querySelector(".plot-told");
    const title = figure.querySelector(".plot-title").textContent;
    const spots = Array.from(figure.querySelectorAll(".spots rect"));
    if (!spots.length) return;
    const texts = spots.map((spot) => {
      const text = spot.firstElementChild.textContent;
      spot.firstElementChild.remove(); // the browser would show it a second time
      return text;
    });
    const line = made("line", "here");
    line.setAttribute("y1", "0");
    line.setAttribute("y2", "100%");
    const dot = made("circle", "there");
    dot.setAttribute("r", "4");
    let at = -1;

    function read(number) {
      at = Math.max(0, Math.min(spots.length - 1, number));
      const spot = spots[at];
      const x = parseFloat(spot.getAttribute("x")) + parseFloat(spot.getAttribute("width")) / 2 + "%";
      line.setAttribute("x1", x);
      line.setAttribute("x2", x);
      picture.append(line);
      if (spot.dataset.y === undefined) {
        dot.remove();
      } else {
        dot.setAttribute("cx", x);
        dot.setAttribute("cy", spot.dataset.y + "%");
        picture.append(dot);
      }
      told.textContent = texts[at];
      figure.classList.add("read");
      picture.setAttribute("aria-valuenow", String(at));
      picture.setAttribute("aria-valuetext", texts[at]);
    }

    function leave() {
      line.remove();
      dot.remove();
      told.textContent = told.dataset.told;
      figure.classList.remove("read");
    }

    function follow(event) {
      const box = picture.getBoundingClientRect();
      if (box.width) read(Math.floor(((event.clientX - box.left) / box.width) * spots.length));
    }

    const keys = {
      ArrowLeft: () => read(at < 0 ? spots.length - 1 : at - 1),
      ArrowRight: () => read(at < 0 ? spots.length - 1 : at + 1),
      ArrowDown: () => read(at < 0 ? spots.length - 1 : at - 1),
      ArrowUp: () => read(at < 0 ? spots.length - 1 : at + 1),
      PageDown: () => read(at - Math.ceil(spots.length / 10)),
      PageUp: () => read(at + Math.ceil(spots.length / 10)),
      Home: () => read(0),
      End: () => read(spots.length - 1),
      Escape: leave,
    };
    picture.setAttribute("role", "slider");
    picture.setAttribute("tabindex", "0");
    picture.setAttribute("aria-label", `${title}, ${told.dataset.told}; the arrow keys read one step after the other`);
    picture.setAttribute("aria-valuemin", "0");
    picture.setAttribute("aria-valuemax", String(spots.length - 1));
    picture.setAttribute("aria-valuenow", String(spots.length - 1));
    picture.setAttribute("aria-valuetext", texts[spots.length - 1]);
    picture.addEventListener("pointermove", follow);
    picture.addEventListener("pointerdown", follow);
    picture.addEventListener("pointerleave", (event) => {
      if (event.pointerType === "mouse" && document.activeElement !== picture) leave();
    });
    picture.addEventListener("blur", leave);
    picture.addEventListener("keydown", (event) => {
      const key = keys[event.key];
      if (key === undefined || event.ctrlKey || event.altKey || event.metaKey) return;
      event.preventDefault();
      key();
    });
  }

  function prepareAll() {
    document.querySelectorAll("#plots .plot").forEach(prepare);
  }

  // A page that stays open gets new plots, unless somebody reads one just now.
  async function renew() {
    const section = document.getElementById("plots");
    if (document.hidden || section === null || section.querySelector(".read") || section.contains(document.activeElement)) return;
    try {
      const answer = await fetch(location.href, { credentials: "same-origin" });
      if (!answer.ok) return;
      const found = new DOMParser().parseFromString(await answer.text(), "text/html").getElementById("plots");
      if (found !== null && !section.querySelector(".read")) {
        section.replaceWith(document.importNode(found, true));
        prepareAll();
      }
    } catch {
      // The page itself says when fallow does not answer.
    }
  }

  prepareAll();
  setInterval(renew, EVERY_MS);
})();
