// Buttons below figures that load and draw their values. Without it the pictures stand alone.
"use strict";
for (const button of document.querySelectorAll("button.explore")) {
  const panel = button.nextElementSibling;
  button.hidden = false;
  button.addEventListener("click", async () => {
    panel.hidden = !panel.hidden;
    button.setAttribute("aria-expanded", String(!panel.hidden));
    if (panel.childElementCount) return;
    try {
      for (const address of [button.dataset.script, button.dataset.values]) {
        await load(address);
      }
      for (const data of figureValues[button.dataset.figure]) {
        exploreFigure(panel.appendChild(document.createElement("div")), data);
      }
    } catch (error) {
      panel.textContent = String(error);
    }
  });
}
function load(address) {
  if (document.querySelector(`script[src='${address}']`)) return null;
  return new Promise((resolve, reject) => {
    const script = document.createElement("script");
    script.src = address;
    script.onload = resolve;
    script.onerror = () => reject(new Error(`${address} is not beside this page.`));
    document.head.append(script);
  });
}
