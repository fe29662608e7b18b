// Enlarge figures, copy commands. Without it figures open as files, and commands can be selected.
"use strict";
(() => {
  const dialog = document.querySelector("dialog.enlarged");
  document.addEventListener("click", async (event) => {
    const link = event.target.closest("a.enlarge");
    if (link && dialog.showModal && !event.ctrlKey && !event.metaKey && !event.shiftKey) {
      event.preventDefault();
      const picture = dialog.querySelector("img");
      picture.src = link.href;
      picture.alt = link.querySelector("img")?.alt ?? link.textContent;
      dialog.showModal();
    } else if (event.target === dialog) {
      dialog.close();
    }
    const command = event.target.closest("code.copy");
    if (command) copy(command);
    const button = event.target.closest("button.copy");
    if (button) copy(button.nextElementSibling);
  });
  for (const button of document.querySelectorAll("button.copy")) button.hidden = false;
  document.addEventListener("keydown", (event) => {
    if ((event.key === "Enter" || event.key === " ") && event.target.matches("code.copy")) {
      event.preventDefault();
      copy(event.target);
    }
  });
  for (const command of document.querySelectorAll("code.copy")) {
    command.tabIndex = 0;
    command.setAttribute("role", "button");
    command.title = "Copy";
  }
  async function copy(command) {
    const text = command.textContent;
    try {
      await navigator.clipboard.writeText(text);
    } catch {
      getSelection().selectAllChildren(command);
      return;
    }
    command.classList.add("copied");
    setTimeout(() => command.classList.remove("copied"), 1500);
  }
})();
