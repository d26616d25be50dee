// Traces: the latest, and one as a waterfall.

import { call } from './rpc.js';
import { el, filling, link, place, plural, short, table, time, took } from './dom.js';

const SPANS_SHOWN = 500;

export function traces(box, signal, given, go) {
  const body = el('div');
  if (given.trace) {
    box.append(el('h2', {}, 'Trace'), el('p', {}, el('code', {}, given.trace), ' · ', link('The latest', '#traces')), body);
    return filling(body)(() => waterfall(given.trace, signal));
  }
  const submit = (event) => { event.preventDefault(); go('traces', Object.fromEntries(new FormData(event.target))); };
  box.append(el('h2', {}, 'Traces'), el('form', { onsubmit: submit },
    el('label', {}, 'with a span named', el('input', { name: 'span', value: given.span ?? '', 'data-search': true, autocomplete: 'off' })),
    el('label', {}, 'or the trace', el('input', { name: 'trace', placeholder: '32 hexadecimal digits', autocomplete: 'off' })),
    el('button', { class: 'main' }, 'Search')), body);
  return filling(body)(async () => {
    const found = (await call('ListTraces', { spanName: given.span ?? '', limit: 100 }, signal)).traces ?? [];
    if (!found.length) return [el('p', { class: 'soft' }, 'No traces have arrived.')];
    return [table('Traces', [
      ['began with', (each) => link(short(each.root ?? ''), place('traces', { trace: each.traceId }))],
      ['at', (each) => time(Number(each.startUnixNano ?? 0) / 1e6)],
      ['took', (each) => took(each.durationNano ?? 0), true],
      ['spans', (each) => each.spanCount ?? 0, true],
    ], found)];
  });
}

// The spans in the order of a walk from the roots, each with its depth.
function walked(spans) {
  const byParent = new Map();
  const known = new Set(spans.map((each) => each.spanId));
  for (const each of spans) {
    const parent = known.has(each.parentSpanId) ? each.parentSpanId : '';
    byParent.set(parent, [...(byParent.get(parent) ?? []), each]);
  }
  const order = [];
  const stack = (byParent.get('') ?? []).map((each) => [each, 0]).reverse();
  while (stack.length) {
    const [span, depth] = stack.pop();
    order.push([span, depth]);
    byParent.delete(span.parentSpanId);
    for (const child of (byParent.get(span.spanId) ?? []).slice().reverse()) stack.push([child, depth + 1]);
  }
  return order;
}

async function waterfall(traceId, signal) {
  const spans = [];
  for (;;) {
    const page = await call('GetTrace', { traceId, skip: spans.length }, signal);
    spans.push(...(page.spans ?? []));
    if (!(page.spans ?? []).length || spans.length >= Math.min(page.spanCount ?? 0, 10000)) break;
  }
  if (!spans.length) return [el('p', { class: 'soft' }, 'No span of it is here.')];
  const start = spans.reduce((least, each) => BigInt(each.startUnixNano ?? 0) < least ? BigInt(each.startUnixNano ?? 0) : least, BigInt(spans[0].startUnixNano ?? 0));
  const end = spans.reduce((most, each) => BigInt(each.endUnixNano ?? 0) > most ? BigInt(each.endUnixNano ?? 0) : most, 0n);
  const whole = Number(end - start) || 1;
  const order = walked(spans);
  const rows = el('div', { class: 'waterfall', role: 'list' });
  for (const [span, depth] of order.slice(0, SPANS_SHOWN)) {
    const from = Number(BigInt(span.startUnixNano ?? 0) - start);
    const length = Number(BigInt(span.endUnixNano ?? 0) - BigInt(span.startUnixNano ?? 0));
    const about = Object.entries(span.attributes ?? {}).map(([key, value]) => `${key}=${value}`).join('\n');
    const name = el('span', { class: 'name', title: `${span.name ?? ''}\n${span.instance || span.service || ''}\n${about}` }, short(span.name ?? ''), ' ', el('span', { class: 'soft' }, span.instance || span.service || ''));
    name.style.paddingLeft = `${Math.min(depth, 12) * 0.8}rem`;
    const bar = el('span', { class: span.error ? 'bar failed' : 'bar' });
    bar.style.left = `${(100 * from) / whole}%`;
    bar.style.width = `${(100 * length) / whole}%`;
    rows.append(el('div', { class: 'span', role: 'listitem' }, name, el('span', { class: 'track', 'aria-hidden': 'true' }, bar), el('span', { class: 'took' }, took(length))));
  }
  const processes = new Set(spans.map((each) => each.instance || each.service)).size;
  return [
    el('p', {}, `${took(whole)} · ${plural(spans.length, 'span')} · ${plural(processes, 'process').replace(/processs$/, 'processes')}${order.length > SPANS_SHOWN ? `; the first ${SPANS_SHOWN} are here` : ''}`),
    rows,
  ];
}
