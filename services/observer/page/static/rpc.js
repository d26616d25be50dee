// Calls of the observer: proto3 JSON in and out, and questions in SQL.

const OBSERVER = '/kraft.service.Observer/';

export class Refused extends Error {
  constructor(status) {
    super(status.message ?? String(status));
    this.reason = status.details?.[0]?.reason ?? '';
  }
}

async function asked(method, request, signal) {
  const response = await fetch(OBSERVER + method, {
    method: 'POST', body: JSON.stringify(request), headers: { 'Content-Type': 'application/json' }, signal,
  });
  if (response.ok) return response;
  const text = await response.text();
  let status = { message: text };
  try { status = JSON.parse(text); } catch { /* a refusal before any call is text */ }
  throw new Refused(status);
}

export async function call(method, request = {}, signal = undefined) {
  return (await asked(method, request, signal)).json();
}

// The parts of an answer; whoever stops reading lets go of the rest.
export async function* parts(method, request, signal = undefined) {
  const reader = (await asked(method, request, signal)).body.pipeThrough(new TextDecoderStream()).getReader();
  let left = '';
  try {
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return;
      const lines = (left + value).split('\n');
      left = lines.pop();
      for (const line of lines) {
        const part = JSON.parse(line);
        if (part.error) throw new Refused(part.error);
        yield part;
      }
    }
  } finally {
    reader.cancel().catch(() => {});
  }
}

export function watch(request, { heard, refused, lost }) {
  const source = new EventSource(`${OBSERVER}WatchImage?${new URLSearchParams(request)}`);
  source.onmessage = (event) => heard(JSON.parse(event.data));
  source.addEventListener('refused', (event) => { source.close(); refused(new Refused(JSON.parse(event.data))); });
  source.onerror = () => lost(source.readyState === EventSource.CLOSED);
  return source;
}

// A value of a column: BigInt for integers, as offsets may be larger than what a double has exactly.
export function valueOf(value) {
  if (value === undefined || value === null) return null;
  if ('integer' in value) return BigInt(value.integer);
  if ('real' in value) return Number(value.real);
  if ('text' in value) return value.text;
  if ('boolean' in value) return value.boolean;
  if ('blob' in value) return `0x${[...atob(value.blob)].map((each) => each.charCodeAt(0).toString(16).padStart(2, '0')).join('')}`;
  return null;
}

// The first rows of an answer, and whether there are more.
export async function query(sql, most, signal = undefined) {
  let columns = [];
  let offset = '0';
  const rows = [];
  for await (const part of parts('Query', { sql }, signal)) {
    if (part.columns) { columns = part.columns; offset = part.nextOffset ?? '0'; }
    for (const row of part.rows ?? []) rows.push((row.values ?? []).map(valueOf));
    if (rows.length > most) break;
  }
  return { columns, offset, rows: rows.slice(0, most), hasMore: rows.length > most };
}

export const literal = (text) => `'${String(text).replaceAll('\u0000', '').replaceAll("'", "''")}'`;
