// Reads the page's payload: a JSON description, and packed rows of numbers.

const ARRAYS = {
  uint8: Uint8Array,
  int8: Int8Array,
  uint16: Uint16Array,
  int16: Int16Array,
  uint32: Uint32Array,
  float32: Float32Array,
};

async function readPayload(encoded) {
  const compressed = Uint8Array.from(atob(encoded.trim()), (letter) => letter.charCodeAt(0));
  const stream = new Blob([compressed]).stream().pipeThrough(new DecompressionStream('deflate'));
  const buffer = await new Response(stream).arrayBuffer();
  const length = new DataView(buffer).getUint32(0, true);
  const data = JSON.parse(new TextDecoder().decode(new Uint8Array(buffer, 4, length)));
  const start = 4 + length;
  for (const method of data.methods) {
    method.scores = new Rows(buffer, start, method.scores);
    method.layers = method.layers && new Rows(buffer, start, method.layers);
    method.rowOf = new Map(method.targets.map((place, row) => [place, row]));
  }
  for (const map of data.maps) {
    map.weights = new Rows(buffer, start, map.weights);
    map.null = map.null && new Rows(buffer, start, map.null);
  }
  const { alternatives } = data;
  if (alternatives && alternatives.other) {
    for (const name of ['original', 'other']) alternatives[name] = new Rows(buffer, start, alternatives[name]);
    alternatives.headOutputs = alternatives.headOutputs.map((rows) => new Rows(buffer, start, rows));
  }
  return data;
}

// Rows of integers with one scale per row. Long rows keep their largest entries, with the columns these belong to.
class Rows {
  constructor(buffer, start, packed) {
    const array = (entry) => entry && new ARRAYS[entry.type](buffer, start + entry.offset, entry.length);
    this.count = packed.rows;
    this.width = packed.width;
    this.kept = packed.kept;
    this.codes = array(packed.codes);
    this.scale = array(packed.scale);
    this.columns = array(packed.columns);
    this.rest = array(packed.rest);
  }

  // Adds `weight` times a row to `sums`, and returns `weight` times the sum of its dropped entries.
  add(row, weight, sums) {
    const first = row * this.kept;
    const unit = this.scale[row] * weight;
    const { codes, columns, kept } = this;
    if (columns) {
      for (let j = 0; j < kept; j++) sums[columns[first + j]] += codes[first + j] * unit;
    } else {
      for (let j = 0; j < kept; j++) sums[j] += codes[first + j] * unit;
    }
    return this.rest ? this.rest[row] * weight : 0;
  }

  row(row) {
    const values = new Float64Array(this.width);
    this.add(row, 1, values);
    return values;
  }

  at(row, column) {
    const first = row * this.kept;
    if (!this.columns) return this.codes[first + column] * this.scale[row];
    for (let j = first; j < first + this.kept; j++) {
      if (this.columns[j] === column) return this.codes[j] * this.scale[row];
    }
    return 0;
  }
}
