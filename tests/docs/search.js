// node search.js SITE QUERY...: prints, for each query, the pages that the site's own search worker finds, best first.
const fs = require("fs");
const path = require("path");
const vm = require("vm");

const [site, ...queries] = process.argv.slice(2);
const workers = path.join(site, "assets", "javascripts", "workers");
const worker = fs.readdirSync(workers).find((name) => /^search\..*\.js$/.test(name));
const index = JSON.parse(fs.readFileSync(path.join(site, "search", "search_index.json"), "utf8"));
const waiting = [];
let receive;
Object.assign(globalThis, {
  self: globalThis,
  importScripts: () => {},
  addEventListener: (type, listener) => { if (type === "message") receive = listener; },
  postMessage: (message) => waiting.shift()(message),
});
vm.runInThisContext(fs.readFileSync(path.join(workers, worker), "utf8"));

const [SETUP, QUERY] = [0, 2]; // kinds of messages of the worker
const ask = (type, data) => new Promise((resolve) => { waiting.push(resolve); receive({ data: { type, data } }); });
(async () => {
  await ask(SETUP, { config: index.config, docs: index.docs, options: { suggest: false } });
  const found = {};
  for (const query of queries) found[query] = (await ask(QUERY, query)).data.items.map((group) => group[0].location);
  console.log(JSON.stringify(found));
})();
