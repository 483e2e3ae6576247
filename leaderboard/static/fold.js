// Unfold the ranking of a track that the address names.
"use strict";

const parts = [...document.querySelectorAll("details.division")];

const unfold = () => {
  const place = document.getElementById(decodeURIComponent(location.hash.slice(1)));
  const asked = parts.find((part) => part.contains(place));
  if (!place || !asked) return;
  asked.open = true;
  place.scrollIntoView();
};

addEventListener("hashchange", unfold);
unfold();
