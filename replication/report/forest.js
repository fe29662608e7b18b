// Order statements by section or by verdict, open the one that the address names. Without it they
// stand in the order of sections.
"use strict";
(() => {
  const plots = document.querySelector(".forest");
  const order = document.querySelector(".order");

  function sort(by) {
    const rank = (row) => Number(row.dataset[by]) * 1000 + Number(row.dataset.section);
    const groups = [...plots.querySelectorAll(".group")].map((group) => {
      const rows = [...group.querySelectorAll("details.statement")].sort((a, b) => rank(a) - rank(b));
      group.append(...rows);
      return { group, first: rank(rows[0]) };
    });
    plots.append(...groups.sort((a, b) => a.first - b.first).map((one) => one.group));
  }

  function open() {
    const target = document.getElementById(decodeURIComponent(location.hash.slice(1)));
    const statement = target?.closest("details.statement");
    if (statement) statement.open = true;
  }

  order.addEventListener("change", (event) => sort(event.target.value));
  order.hidden = false;
  addEventListener("hashchange", open);
  open();
})();
