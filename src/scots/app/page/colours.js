"use strict";
// Colour scales: positions between 0 and 1 -> CSS colours. Both get lighter all the way, so they also read in grey.

const NEAR_FAR = ["#440154", "#3b528b", "#21918c", "#5ec962", "#fde725"];
const EARLY_LATE = ["#0d0887", "#7e03a8", "#cc4778", "#f89540", "#f0f921"];

function colourAt(scale, share) {
  const at = Math.min(Math.max(share, 0), 1) * (scale.length - 1);
  const low = Math.min(Math.floor(at), scale.length - 2);
  const parts = [1, 3, 5].map((n) => {
    const [first, second] = [scale[low], scale[low + 1]].map((colour) => parseInt(colour.slice(n, n + 2), 16));
    return Math.round(first + (at - low) * (second - first));
  });
  return `rgb(${parts.join(",")})`;
}

function themeColour(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
}
