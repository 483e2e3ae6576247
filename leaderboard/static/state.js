// What the reader has chosen on a page, kept in the query of its address, so that a link shows the same.
"use strict";

const pageState = {
  get: (key) => new URLSearchParams(location.search).get(key) ?? "",

  // Change some keys; an empty value removes its key.
  set: (changes) => {
    const query = new URLSearchParams(location.search);
    for (const [key, value] of Object.entries(changes)) {
      if (value) query.set(key, value);
      else query.delete(key);
    }
    const words = query.toString();
    history.replaceState(null, "", `${words ? `?${words}` : location.pathname}${location.hash}`);
  },
};
