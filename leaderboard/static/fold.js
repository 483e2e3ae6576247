// On narrow screens fold all rankings of a track but the first; unfold the one that the address names.
"use strict";

const parts = [...document.querySelectorAll("details.division")];

const unfold = () => {
  const asked = parts.find((part) => `#${part.id}` === location.hash);
  if (!asked) return;
  asked.open = true;
  asked.scrollIntoView();
};

if (matchMedia("(max-width: 819px)").matches) for (const part of parts.slice(1)) part.open = false;
addEventListener("hashchange", unfold);
unfold();
