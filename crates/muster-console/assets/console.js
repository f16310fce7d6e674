// Pages work without this file. It keeps live parts fresh, copies commands, and puts `/` on the search.
(() => {
  "use strict";
  const INTERVAL = 3000;

  const live = () => [...document.querySelectorAll("[data-live][id]")];

  /** The page as it is now; null if it cannot be shown any more. */
  async function load() {
    const reply = await fetch(location.href, { headers: { accept: "text/html" } });
    return reply.ok ? new DOMParser().parseFromString(await reply.text(), "text/html") : null;
  }

  async function refresh() {
    if (document.hidden || !live().length) return;
    const fresh = await load().catch(() => null);
    document.getElementById("stale").hidden = fresh !== null;
    if (!fresh) return;
    for (const part of live()) {
      const next = fresh.getElementById(part.id);
      // What the user is working in is left alone.
      if (!next || part.contains(document.activeElement) || part.querySelector("input:checked")) continue;
      if (part.innerHTML === next.innerHTML) continue;
      const open = [...part.querySelectorAll("details")].map((details) => details.open);
      part.replaceWith(next);
      [...next.querySelectorAll("details")].forEach((details, at) => (details.open ||= open[at]));
      prepare(next);
    }
  }

  function prepare(root) {
    for (const button of root.querySelectorAll("button[data-copy]")) {
      button.hidden = false;
      button.addEventListener("click", async () => {
        await navigator.clipboard.writeText(button.dataset.copy);
        const label = button.textContent;
        button.textContent = "Copied";
        setTimeout(() => (button.textContent = label), 1500);
      });
    }
  }

  document.addEventListener("keydown", (event) => {
    const search = document.querySelector("input[type=search]");
    const isTyping = event.target.matches("input, textarea, select");
    if (event.key === "/" && search && !isTyping) {
      event.preventDefault();
      search.focus();
    }
  });
  prepare(document);
  setInterval(refresh, INTERVAL);
})();
