// The first screen: whether the embedding is good, why, and what to do next.

function answer(run) {
  const { verdict } = run;
  if (!verdict) return null;
  return section("verdict", "Is this embedding good?",
    el("p", { class: `headline ${verdict.verdict}` }, badge(verdict.verdict), " ", verdict.headline),
    el("div", { class: "halves" },
      el("div", {}, el("h3", {}, "Why"), el("ul", { class: "reasons" }, verdict.reasons.map((words) => el("li", {}, words)))),
      el("div", {}, el("h3", {}, "What to do next"), el("ol", { class: "steps" }, verdict.next.map(({ why, command }) =>
        el("li", {}, el("p", {}, why), el("div", { class: "command" }, el("code", {}, command),
          el("button", { type: "button", "aria-label": `Copy: ${command}`, onclick: (event) => copyText(event.currentTarget, command) }, "Copy"))))))));
}

async function copyText(button, text) {
  try {
    await navigator.clipboard.writeText(text);
  } catch { // some browsers forbid it for local files: use the older interface
    const area = el("textarea");
    area.value = text;
    document.body.append(area);
    area.select();
    document.execCommand("copy");
    area.remove();
  }
  const before = button.dataset.label ?? button.textContent;
  button.dataset.label = before;
  button.textContent = "Copied";
  setTimeout(() => { button.textContent = before; }, 1500);
}
