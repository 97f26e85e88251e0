"use strict";
/* The two tabs of the page; keys, clicks and the address select one. */
const orcuTabs = (() => {
  const tabs = [...document.querySelectorAll("[role=tab]")];
  const view = tab => document.getElementById(tab.getAttribute("aria-controls"));
  const nameOf = tab => tab.id.replace("tab-", "");
  let open = null;

  function show(name) {
    if (name === open) return;
    open = name;
    for (const tab of tabs) {
      const chosen = nameOf(tab) === name;
      tab.setAttribute("aria-selected", String(chosen));
      tab.tabIndex = chosen ? 0 : -1;
      view(tab).hidden = !chosen;
    }
    dispatchEvent(new CustomEvent("tab", { detail: name })); // hidden charts have no width
  }

  function choose(tab) {
    show(nameOf(tab));
    tab.focus();
    if (open === "evaluate") try { history.replaceState(null, "", "#evaluate"); } catch { location.hash = "#evaluate"; }
  }

  tabs.forEach((tab, i) => {
    tab.addEventListener("click", () => choose(tab));
    tab.addEventListener("keydown", event => {
      const to = { ArrowRight: i + 1, ArrowLeft: i - 1, Home: 0, End: tabs.length - 1 }[event.key];
      if (to === undefined || event.ctrlKey || event.altKey || event.metaKey) return;
      event.preventDefault();
      choose(tabs[(to + tabs.length) % tabs.length]);
    });
  });
  const fromAddress = hash => (hash === "evaluate" ? "evaluate" : hash.includes("=") ? "loss" : null);
  addEventListener("hashchange", event => {
    const tab = fromAddress(event.newURL.split("#")[1] ?? "");
    if (tab) show(tab);
  });
  show(fromAddress(location.hash.slice(1)) ?? JSON.parse(document.getElementById("start").textContent).tab);
  return Object.freeze({ show, open: () => open });
})();
