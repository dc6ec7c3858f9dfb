// From the page's own bytes to a description and rows of numbers.

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
  return data;
}

// Rows as whole numbers with a scale each; of long rows the largest entries, with their columns.
class Rows {
  constructor(buffer, start, place) {
    const array = (at) => at && new ARRAYS[at.type](buffer, start + at.offset, at.length);
    this.count = place.rows;
    this.width = place.width;
    this.kept = place.kept;
    this.codes = array(place.codes);
    this.scale = array(place.scale);
    this.columns = array(place.columns);
    this.rest = array(place.rest);
  }

  // Adds `weight` times a row to `into`, and returns what of it was not kept.
  add(row, weight, into) {
    const first = row * this.kept;
    const unit = this.scale[row] * weight;
    const { codes, columns, kept } = this;
    if (columns) {
      for (let j = 0; j < kept; j++) into[columns[first + j]] += codes[first + j] * unit;
    } else {
      for (let j = 0; j < kept; j++) into[j] += codes[first + j] * unit;
    }
    return this.rest ? this.rest[row] * weight : 0;
  }

  row(row) {
    const into = new Float64Array(this.width);
    this.add(row, 1, into);
    return into;
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
