"use strict";
(() => {
  const same = { ArrowRight: "n", ArrowLeft: "p", j: "n", k: "p" };
  const label = (side) => document.querySelector(`form[data-label="${side}"] button`)?.focus();
  const comment = () => {
    const form = document.querySelector('form[data-comment="candidate"]');
    if (!form) return;
    form.closest("details").open = true;
    form.querySelector("textarea").focus();
  };
  const keys = () => {
    const box = document.querySelector(".keys-line");
    box.open = !box.open;
    if (box.open) box.scrollIntoView({ block: "nearest" });
  };
  const acts = { l: () => label("candidate"), b: () => label("baseline"), c: comment, "?": keys };
  const unfold = () => {
    const target = document.getElementById(decodeURIComponent(location.hash.slice(1)));
    const box = target?.closest("details");
    if (!box || box.open) return;
    box.open = true;
    target.scrollIntoView();
  };
  window.addEventListener("hashchange", unfold);
  unfold();
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.repeat) return;
    if (event.key === "Escape") {
      document.activeElement?.blur();
      return;
    }
    if (event.target.closest?.("input, textarea, select")) return;
    const form = event.target.closest?.("form[data-label]");
    const button = form?.querySelector(`button[data-key="${CSS.escape(event.key)}"]`);
    if (button) {
      event.preventDefault();
      button.click();
      return;
    }
    if (form && /^[pn0-9]$/.test(event.key)) return;
    if (acts[event.key]) {
      event.preventDefault();
      acts[event.key]();
      return;
    }
    const link = document.querySelector(`a[data-key="${CSS.escape(same[event.key] ?? event.key)}"]`);
    if (link) {
      event.preventDefault();
      link.click();
    }
  });
})();
