"use strict";
(() => {
  const desk = () => document.querySelector("#desk");
  const said = document.querySelector("#said");
  let waiting = Promise.resolve();
  let failures = 0;
  const tell = (text, bad) => {
    said.textContent = text;
    said.classList.toggle("no", bad);
  };
  const show = (address, text) => {
    const shown = new DOMParser().parseFromString(text, "text/html");
    const fresh = shown.querySelector("#desk");
    if (!fresh) throw new Error(shown.querySelector("main section")?.textContent.trim() || "no page");
    const key = document.activeElement?.dataset?.key;
    const moved = fresh.dataset.case !== desk().dataset.case;
    desk().replaceWith(fresh);
    document.title = shown.title;
    if (address !== location.href) history.pushState(null, "", address);
    if (key) fresh.querySelector(`[data-key="${CSS.escape(key)}"]`)?.focus({ preventScroll: true });
    if (moved || fresh.querySelector("#answer")) scrollTo(0, 0);
  };
  const ask = async (address, body) => {
    let answer;
    try {
      answer = await fetch(address, body ? { method: "POST", body } : {});
    } catch {
      throw new Error(`${body ? "Not saved" : "Not shown"}: the server does not answer. Try again.`);
    }
    if (answer.status === 401) {
      location.reload();
      throw new Error("Not saved: sign in again.");
    }
    const text = await answer.text();
    const isSaved = body && answer.redirected;
    try {
      if (!answer.ok && !isSaved) throw new Error("refused");
      show(answer.url, text);
    } catch (error) {
      const shown = new DOMParser().parseFromString(text, "text/html");
      const why = shown.querySelector("main section")?.textContent.trim() || error.message;
      throw new Error(`${isSaved ? "Saved, but the page cannot be shown" : body ? "Not saved" : "Not shown"}: ${why}`);
    }
    return isSaved;
  };
  const act = async (element) => {
    if (element.tagName === "A") {
      await ask(element.href);
      tell("", false);
      return;
    }
    const form = element.form;
    const name = element.textContent.trim();
    await ask(form.action, new URLSearchParams(new FormData(form, element)));
    if (element.value === "undo" && desk().querySelector("#answer")) {
      tell("Not withdrawn: the answer was changed meanwhile.", true);
      return;
    }
    tell({ undo: "Withdrawn.", skip: "Skipped." }[element.value] ?? `Saved: ${name}.`, false);
  };
  const next = (step) => {
    const before = failures;
    waiting = waiting.then(async () => {
      if (failures !== before) return;
      try {
        await step();
      } catch (error) {
        failures += 1;
        tell(error.message, true);
      }
    });
  };
  const same = { ArrowRight: "j", ArrowLeft: "k" };
  const press = (key) => {
    if (key === "n") return () => desk().querySelector("textarea")?.focus();
    if (key === "?") {
      return () => {
        const keys = desk().querySelector(".keys");
        if (keys) keys.open = !keys.open;
      };
    }
    return async () => {
      const element = desk().querySelector(`[data-key="${CSS.escape(key)}"]`);
      if (element) await act(element);
    };
  };
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.repeat) return;
    if (event.key === "Escape") {
      document.activeElement?.blur();
      const keys = desk()?.querySelector(".keys");
      if (keys) keys.open = false;
      return;
    }
    if (!desk() || event.target.closest?.("input, textarea, select")) return;
    const key = same[event.key] ?? event.key;
    if (!/^[pfnsujk?0-9]$/.test(key)) return;
    event.preventDefault();
    next(press(key));
  });
  document.addEventListener("click", (event) => {
    const isUndo = event.target.closest?.("form[data-desk] button[value=undo]");
    if (isUndo && event.detail > 1) event.preventDefault();
  });
  document.addEventListener("submit", (event) => {
    if (!event.target.matches("form[data-desk]") || !event.submitter) return;
    event.preventDefault();
    const element = event.submitter;
    next(() => act(element));
  });
  window.addEventListener("popstate", () => location.reload());
})();
