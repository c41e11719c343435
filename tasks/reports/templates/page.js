"use strict";
(() => {
  const value = (cell) => {
    const text = (cell?.dataset.sort ?? cell?.textContent ?? "").trim();
    const number = Number.parseFloat(text.replace(/,/g, "").replace("−", "-").replace(/^[^0-9+.-]+/, ""));
    return { text, number };
  };
  const sort = (table, index, header) => {
    const ascending = header.getAttribute("aria-sort") !== "ascending";
    const numeric = header.classList.contains("n");
    const body = table.tBodies[0];
    const rows = [...body.rows].map((row, place) => ({ row, place, ...value(row.cells[index]) }));
    rows.sort((one, other) => {
      if (numeric) {
        const missing = Number(Number.isNaN(one.number)) - Number(Number.isNaN(other.number));
        if (missing) return missing;
        const difference = one.number - other.number;
        if (difference) return ascending ? difference : -difference;
        return one.place - other.place;
      }
      const order = one.text.localeCompare(other.text, undefined, { numeric: true });
      return (ascending ? order : -order) || one.place - other.place;
    });
    for (const cell of table.tHead.rows[0].cells) cell.removeAttribute("aria-sort");
    header.setAttribute("aria-sort", ascending ? "ascending" : "descending");
    body.append(...rows.map((one) => one.row));
  };
  for (const table of document.querySelectorAll("table.sortable")) {
    [...table.tHead.rows[0].cells].forEach((header, index) => {
      const button = document.createElement("button");
      button.type = "button";
      button.className = "sort";
      button.append(...header.childNodes);
      button.addEventListener("click", () => sort(table, index, header));
      header.append(button);
    });
  }
  const all = document.querySelector("#cases");
  const note = all?.querySelector("[data-filtered]");
  const filter = () => {
    const [place, query] = location.hash.slice(1).split("?");
    if (place !== "cases" || !note) return;
    const wanted = [...new URLSearchParams(query ?? "")].map(([name, text]) => `${name}=${text}`);
    let shown = 0;
    for (const row of all.querySelectorAll("[data-has]")) {
      const has = JSON.parse(row.dataset.has);
      row.hidden = !wanted.every((each) => has.includes(each));
      if (!row.hidden) shown += 1;
    }
    note.hidden = wanted.length === 0;
    note.querySelector("strong").textContent = wanted.join(", ").replaceAll("_", " ").replaceAll("=", " ");
    note.querySelector("span").textContent = shown;
    all.querySelector("details").open = true;
    all.scrollIntoView();
  };
  window.addEventListener("hashchange", filter);
  filter();
  for (const live of document.querySelectorAll("[data-progress]")) {
    const look = async () => {
      try {
        const answer = await fetch(live.dataset.progress, { headers: { Accept: "application/json" } });
        if (answer.ok) {
          const found = await answer.json();
          if (found.status !== live.dataset.status) {
            location.reload();
            return;
          }
          live.querySelector("progress").value = found.done;
          live.querySelector("[data-line]").textContent = `${found.line}.`;
        }
      } catch {
        /* the server is away; look again */
      }
      setTimeout(look, 2000);
    };
    setTimeout(look, 2000);
  }
})();
