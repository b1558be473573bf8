// Builds report.js and report.css from src/, and writes down what they were built from:
//   npm ci --ignore-scripts && node build.mjs
// tests/traces/html/test_bundle.py holds that what is checked in is what the sources give.

import { build } from "esbuild";
import { createHash } from "node:crypto";
import { readFileSync, readdirSync, writeFileSync } from "node:fs";

const css = readFileSync("node_modules/uplot/dist/uPlot.min.css", "utf8") + readFileSync("src/report.css", "utf8");
writeFileSync(".all.css", css);
const common = { bundle: true, minify: true, legalComments: "none", charset: "ascii", target: "es2022", logLevel: "warning" };
const licence = "/* profscope, MIT. uPlot, MIT, Copyright (c) 2022 Leon Sorokin: see LICENSE-uPlot.txt */\n";
await build({ ...common, entryPoints: ["src/main.js"], outfile: "report.js", format: "iife", banner: { js: licence } });
await build({ ...common, entryPoints: [".all.css"], outfile: "report.css" });

const names = ["build.mjs", "package-lock.json", "package.json", ...readdirSync("src").map((name) => `src/${name}`)].sort();
const digest = (paths) => {
  const hash = createHash("sha256");
  for (const path of paths) hash.update(path + "\0").update(readFileSync(path)).update("\0");
  return hash.digest("hex");
};
writeFileSync("report.sha256", `sources ${digest(names)}\nbundle ${digest(["report.css", "report.js"])}\n`);
