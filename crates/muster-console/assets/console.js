// Pages work without this file. It keeps live parts fresh, copies commands, and puts `/` on the search.
(() => {
  "use strict";
  const INTERVAL = 3000;

  const live = () => [...document.querySelectorAll("[data-live][id]")];

  async function refresh() {
    if (document.hidden || !live().length) return;
    let fresh;
    try {
      const reply = await fetch(location.href, { headers: { accept: "text/html" } });
      if (!reply.ok) return;
      fresh = new DOMParser().parseFromString(await reply.text(), "text/html");
    } catch {
      return;
    }
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
