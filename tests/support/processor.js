// Perfetto's trace processor, driven from Node.
//
//   node processor.js <folder with engine_bundle.js and trace_processor.wasm>
//
// Reads one command a line on stdin, {"load": "trace file"} or {"query": "SQL"}, and answers each with one line on
// stdout: {"columns": [...], "rows": [[...], ...]} or {"error": "..."}.
// The engine is the bundle Perfetto's UI runs in a web worker, so it is given what a worker has and no more.
"use strict";
const fs = require("fs");
const path = require("path");
const readline = require("readline");
const vm = require("vm");

// TraceProcessorRpc, perfetto's protos/perfetto/trace_processor/trace_processor.proto
const APPEND_TRACE_DATA = 1;
const FINALIZE_TRACE_DATA = 2;
const QUERY_STREAMING = 3;
const RESET = 11;
const RPC = {seq: 1, request: 2, fatalError: 5, appendTraceData: 101, queryArgs: 103, resetArgs: 107,
             appendResult: 201, queryResult: 203, finalizeResult: 212};
const CELL = {NULL: 1, VARINT: 2, FLOAT64: 3, STRING: 4, BLOB: 5};
const CHUNK_BYTES = 16 << 20;

function varint(value) {
  const bytes = [];
  let left = BigInt(value);
  while (left >= 0x80n) {
    bytes.push(Number(left & 0x7fn) | 0x80);
    left >>= 7n;
  }
  bytes.push(Number(left));
  return Buffer.from(bytes);
}

const numberField = (field, value) => Buffer.concat([varint(field << 3), varint(value)]);
const bytesField = (field, bytes) => Buffer.concat([varint((field << 3) | 2), varint(bytes.length), bytes]);

class Reader {
  constructor(bytes) {
    this.bytes = bytes;
    this.at = 0;
  }

  get more() {
    return this.at < this.bytes.length;
  }

  // Unsigned, as a BigInt: cells are int64 and must not go through double.
  varint() {
    let value = 0n;
    for (let shift = 0n; ; shift += 7n) {
      const byte = this.bytes[this.at++];
      value |= BigInt(byte & 0x7f) << shift;
      if (byte < 0x80) return value;
    }
  }

  take(count) {
    const piece = this.bytes.subarray(this.at, this.at + count);
    this.at += count;
    return piece;
  }

  // Yields [field, value]: a BigInt for varints, bytes otherwise.
  *fields() {
    while (this.more) {
      const tag = Number(this.varint());
      const kind = tag & 7;
      if (kind === 0) yield [tag >> 3, this.varint()];
      else if (kind === 1) yield [tag >> 3, this.take(8)];
      else if (kind === 2) yield [tag >> 3, this.take(Number(this.varint()))];
      else if (kind === 5) yield [tag >> 3, this.take(4)];
      else throw new Error(`wire type ${kind} in a reply of the trace processor`);
    }
  }
}

const text = (bytes) => Buffer.from(bytes).toString("utf8");

function decodeBatch(bytes, cells) {
  let types = [];
  const ints = [];
  const floats = [];
  const blobs = [];
  let strings = [];
  for (const [field, value] of new Reader(bytes).fields()) {
    if (field === 1) types = Array.from(value);
    else if (field === 2) for (const r = new Reader(value); r.more;) ints.push(BigInt.asIntN(64, r.varint()));
    else if (field === 3) {
      const view = new DataView(value.buffer, value.byteOffset, value.length);
      for (let at = 0; at < value.length; at += 8) floats.push(view.getFloat64(at, true));
    } else if (field === 4) blobs.push(Buffer.from(value).toString("base64"));
    else if (field === 5) strings = text(value).split("\0");
  }
  const next = {ints: 0, floats: 0, strings: 0, blobs: 0};
  for (const type of types) {
    if (type === CELL.NULL) cells.push("null");
    else if (type === CELL.VARINT) cells.push(ints[next.ints++].toString());
    else if (type === CELL.FLOAT64) cells.push(JSON.stringify(floats[next.floats++]));
    else if (type === CELL.STRING) cells.push(JSON.stringify(strings[next.strings++]));
    else if (type === CELL.BLOB) cells.push(JSON.stringify(blobs[next.blobs++]));
    else throw new Error(`cell type ${type} in a query result`);
  }
}

// What the bundle asks of its web worker: a synchronous XMLHttpRequest for the .wasm beside it.
const requestFrom = (folder) => class {
  open(method, name) {
    this.file = path.join(folder, path.basename(String(name)));
  }

  send() {
    const bytes = fs.readFileSync(this.file);
    this.response = bytes.buffer.slice(bytes.byteOffset, bytes.byteOffset + bytes.length);
  }
};

class Engine {
  constructor(folder) {
    const worker = {location: {href: "https://perfetto.invalid/"}};
    const quiet = {log() {}, warn() {}, error() {}};
    const sandbox = {self: worker, location: worker.location, console: quiet, WebAssembly, URL, TextDecoder,
                     TextEncoder, performance, crypto: globalThis.crypto, Uint8Array, ArrayBuffer, TypeError,
                     WorkerGlobalScope: class {}, XMLHttpRequest: requestFrom(folder)};
    vm.runInNewContext(fs.readFileSync(path.join(folder, "engine_bundle.js"), "utf8"), sandbox);
    this.port = {postMessage: (bytes) => this.replies.push(bytes)};
    worker.onmessage({data: this.port});
    this.replies = [];
    this.seq = 0;
  }

  // Sends one request and returns the fields of every reply to it (replies come before the call returns).
  call(request, ...args) {
    const message = Buffer.concat([numberField(RPC.seq, this.seq++), numberField(RPC.request, request), ...args]);
    this.replies = [];
    this.port.onmessage({data: new Uint8Array(bytesField(1, message))});
    const fields = [];
    for (const reply of this.replies) {
      for (const [, rpc] of new Reader(reply).fields()) fields.push(...new Reader(rpc).fields());
    }
    const fatal = fields.find(([field]) => field === RPC.fatalError);
    if (fatal) throw new Error(text(fatal[1]));
    return fields;
  }

  load(file) {
    this.call(RESET, bytesField(RPC.resetArgs, Buffer.alloc(0)));
    const fd = fs.openSync(file, "r");
    const chunk = Buffer.alloc(CHUNK_BYTES);
    for (let count; (count = fs.readSync(fd, chunk)) > 0;) {
      const fields = this.call(APPEND_TRACE_DATA, bytesField(RPC.appendTraceData, chunk.subarray(0, count)));
      throwError(fields, RPC.appendResult, 2);
    }
    fs.closeSync(fd);
    throwError(this.call(FINALIZE_TRACE_DATA), RPC.finalizeResult, 1);
    return '{"columns":[],"rows":[]}';
  }

  query(sql) {
    const columns = [];
    const cells = [];
    const reply = this.call(QUERY_STREAMING, bytesField(RPC.queryArgs, bytesField(1, Buffer.from(sql))));
    for (const [field, result] of reply) {
      if (field !== RPC.queryResult) continue;
      for (const [part, value] of new Reader(result).fields()) {
        if (part === 1) columns.push(text(value));
        else if (part === 2 && value.length) throw new Error(text(value));
        else if (part === 3) decodeBatch(value, cells);
      }
    }
    const rows = [];
    for (let at = 0; at < cells.length; at += columns.length) {
      rows.push(`[${cells.slice(at, at + columns.length).join(",")}]`);
    }
    return `{"columns":${JSON.stringify(columns)},"rows":[${rows.join(",")}]}`;
  }
}

function throwError(fields, result, errorField) {
  for (const [field, bytes] of fields) {
    if (field !== result) continue;
    for (const [part, value] of new Reader(bytes).fields()) {
      if (part === errorField && value.length) throw new Error(text(value));
    }
  }
}

function answer(work) {
  let line;
  try {
    line = work();
  } catch (error) {
    line = JSON.stringify({error: String(error.message || error)});
  }
  process.stdout.write(line + "\n");
}

async function main() {
  const engine = new Engine(process.argv[2]);
  await new Promise((resolve) => setImmediate(resolve));  // the bundle finishes its set-up in a microtask
  for await (const line of readline.createInterface({input: process.stdin})) {
    const command = JSON.parse(line);
    answer(() => ("load" in command ? engine.load(command.load) : engine.query(command.query)));
  }
}

main();
