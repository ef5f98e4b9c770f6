"use strict";
// Pictures open over the whole window, where they zoom and move. A dialog keeps the focus and closes with Escape.

(() => {
  const dialog = document.createElement("dialog");
  const image = document.createElement("img");
  const close = document.createElement("button");
  const help = document.createElement("p");
  close.textContent = "✕";
  close.setAttribute("aria-label", "Close the picture");
  help.textContent = "Wheel, pinch or + and − zoom; drag or arrow keys move; Escape closes.";
  dialog.append(close, help);
  document.body.append(dialog);

  let [left, top, scale] = [0, 0, 1];
  const pointers = new Map();

  const place = () => { image.style.transform = `translate(${left}px, ${top}px) scale(${scale})`; };

  const showAll = () => {
    scale = Math.min(innerWidth / image.naturalWidth, innerHeight / image.naturalHeight);
    [left, top] = [(innerWidth - scale * image.naturalWidth) / 2, (innerHeight - scale * image.naturalHeight) / 2];
    place();
  };

  const zoom = (factor, [x, y]) => {
    const next = Math.min(Math.max(scale * factor, 0.05), 40);
    [left, top, scale] = [x - ((x - left) * next) / scale, y - ((y - top) * next) / scale, next];
    place();
  };

  const move = (right, down) => {
    [left, top] = [left + right, top + down];
    place();
  };

  for (const button of document.querySelectorAll(".zoom")) {
    button.addEventListener("click", () => {
      image.src = button.firstChild.src;
      image.alt = button.firstChild.alt;
      close.after(image); // not before: a picture without a source counts as broken
      dialog.showModal();
      image.decode().then(showAll);
    });
  }

  close.addEventListener("click", () => dialog.close());
  addEventListener("resize", () => dialog.open && showAll());
  dialog.addEventListener("wheel", (event) => {
    event.preventDefault();
    zoom(Math.exp(-event.deltaY / 400), [event.clientX, event.clientY]);
  }, { passive: false });
  dialog.addEventListener("pointerdown", (event) => {
    if (event.target === close) return;
    event.preventDefault();
    dialog.setPointerCapture(event.pointerId);
    pointers.set(event.pointerId, [event.clientX, event.clientY]);
  });
  dialog.addEventListener("pointermove", (event) => {
    const before = pointers.get(event.pointerId);
    if (!before) return;
    const at = [event.clientX, event.clientY];
    const [, other] = [...pointers].find(([id]) => id !== event.pointerId) ?? [];
    const length = (point) => Math.hypot(point[0] - other[0], point[1] - other[1]) || 1;
    if (other) zoom(length(at) / length(before), other);
    else move(at[0] - before[0], at[1] - before[1]);
    pointers.set(event.pointerId, at);
  });
  for (const kind of ["pointerup", "pointercancel"]) {
    dialog.addEventListener(kind, (event) => pointers.delete(event.pointerId));
  }
  dialog.addEventListener("keydown", (event) => {
    const middle = [innerWidth / 2, innerHeight / 2];
    const keys = {
      "+": () => zoom(1.25, middle), "=": () => zoom(1.25, middle), "-": () => zoom(0.8, middle), 0: showAll,
      ArrowLeft: () => move(60, 0), ArrowRight: () => move(-60, 0), ArrowUp: () => move(0, 60), ArrowDown: () => move(0, -60),
    };
    if (!(event.key in keys)) return;
    event.preventDefault();
    keys[event.key]();
  });
})();
