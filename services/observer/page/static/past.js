// What changed: the timeline, live, and the difference of two states.

import { call, parts, valueOf, watch } from './rpc.js';
import { el, filling, link, number, place, plural, shown, time } from './dom.js';

const SHOWN_MAX = 1000;
const FIRST = 200;
const WORDS = { KIND_CREATED: 'created', KIND_CHANGED: 'changed', KIND_DELETED: 'deleted' };

const NOTHING = new Set([null, '', '[]']);

const pairs = (columns) => new Map((columns ?? []).map((each) => [each.name, valueOf(each.value)]));

function rowOf(row) {
  const [before, after] = [pairs(row.before), pairs(row.after)];
  const names = [...new Set([...before.keys(), ...after.keys()])];
  const kind = WORDS[row.kind] ?? '';
  const all = kind === 'deleted' ? before : after;
  const isSecret = kind === 'changed' && !after.size;
  return [
    el('div', { class: 'of' }, el('b', {}, row.table), ' ', [...pairs(row.key)].map(([name, value], at) => [at ? ', ' : '', `${name} `, el('code', {}, shown(value))]), ' ', el('span', { class: kind }, kind)),
    isSecret ? el('div', { class: 'of soft' }, 'another secret, which is not shown') : null,
    kind === 'changed'
      ? names.map((name) => el('div', { class: 'of' }, el('span', { class: 'soft' }, `${name} `), el('code', {}, shown(before.get(name))), ' → ', el('code', {}, shown(after.get(name)))))
      : el('div', { class: 'of' }, names.filter((name) => !NOTHING.has(all.get(name))).map((name) => [el('span', { class: 'soft' }, `${name} `), el('code', {}, shown(all.get(name))), ' '])),
  ];
}

function changeOf(change, isNew) {
  return el('li', { class: isNew && 'new' },
    el('div', {}, el('b', {}, `offset ${change.offset ?? 0}`), el('br'), el('span', { class: 'soft' }, time(change.timestampMs)), el('br'),
      el('span', { class: 'soft' }, `epoch ${change.epoch ?? 0} `), change.traceId ? link('trace', place('traces', { trace: change.traceId })) : null),
    el('div', {}, el('b', {}, change.sentence), rowOf(change.row)));
}

const isTime = (text) => !/^\d+$/.test(text);

function placeOf(text) {
  const trimmed = (text ?? '').trim();
  if (!trimmed) return undefined;
  if (!isTime(trimmed)) return { offset: trimmed };
  const ms = Date.parse(/Z|[+-]\d\d:?\d\d$/.test(trimmed) ? trimmed : `${trimmed}Z`);
  if (Number.isNaN(ms)) throw new Error(`${trimmed}: must be an offset, or a time such as 2026-11-27T03:00 (UTC)`);
  return { timestampMs: String(ms) };
}

function form(given, go, live) {
  const field = (name, label, attributes = {}) => el('label', {}, label, el('input', { name, value: given[name] ?? '', autocomplete: 'off', ...attributes }));
  const submit = (event) => {
    event.preventDefault();
    const asked = Object.fromEntries(new FormData(event.target));
    if (event.submitter?.value === 'diff') asked.diff = '1';
    go('changes', asked);
  };
  return el('form', { onsubmit: submit },
    field('subject', 'of', { placeholder: 'topic/NAME, broker/ID, a table', 'data-search': true }),
    field('from', 'from', { placeholder: 'offset or time (UTC)' }), field('to', 'to', { placeholder: 'offset or time (UTC)' }),
    el('button', { class: 'main' }, 'List'), el('button', { value: 'diff' }, 'Difference'), live);
}

export function changes(box, signal, given, go) {
  const body = el('div');
  const state = el('span', { role: 'status', class: 'soft' });
  box.append(el('h2', {}, given.diff ? 'What differs' : 'What changed'), form(given, go, state), body);
  return given.diff ? difference(body, signal, given) : timeline(body, signal, given, state);
}

function difference(body, signal, given) {
  return filling(body)(async () => {
    const rows = [];
    let [from, to, count] = ['0', '0', 0];
    for await (const part of parts('DiffImages', { subject: given.subject ?? '', from: placeOf(given.from), to: placeOf(given.to) }, signal)) {
      [from, to] = [part.fromOffset ?? '0', part.toOffset ?? '0'];
      count += (part.rows ?? []).length;
      rows.push(...(part.rows ?? []).slice(0, SHOWN_MAX - rows.length));
    }
    return [
      el('p', {}, `${plural(count, 'row')} of the state at offset ${number(to)} differ from offset ${number(from)}${count > rows.length ? `; the first ${rows.length} are here` : ''}.`),
      el('ol', { class: 'changes' }, rows.map((row) => el('li', { class: 'whole' }, el('div', {}, rowOf(row))))),
    ];
  });
}

// Without bounds the newest come first, and then what happens; from a bound on it is the order of the log.
async function timeline(body, signal, given, state) {
  const subject = given.subject ?? '';
  const items = el('ol', { class: 'changes' });
  const note = el('p', { class: 'soft' });
  const gaps = el('div', { class: 'soft' });
  const bounded = Boolean(given.from || given.to);
  await filling(body)(async () => {
    if (bounded) {
      let token = '';
      const more = el('button', { type: 'button', onclick: () => next().catch((error) => { note.textContent = error.message; }) }, 'More');
      const next = async () => {
        const page = await call('ListChanges', token ? { subject, pageToken: token, limit: FIRST } : { subject, from: placeOf(given.from), to: placeOf(given.to), limit: FIRST }, signal);
        items.append(...(page.changes ?? []).map((each) => changeOf(each, false)));
        token = page.nextPageToken ?? '';
        more.hidden = !token;
        noteGaps(gaps, page);
        note.textContent = items.children.length ? '' : 'Nothing has changed.';
      };
      await next();
      return [gaps, note, items, more];
    }
    const { toOffset: end = '0', beginsAtOffset: begins = '0' } = await call('ListChanges', { subject, limit: 1 }, signal);
    let before = BigInt(end);
    const more = el('button', { type: 'button', onclick: () => earlier().catch((error) => { note.textContent = error.message; }) }, 'Earlier');
    const earlier = async () => {
      let from = before - BigInt(FIRST);
      for (let wider = BigInt(FIRST); ; wider *= 8n) {
        from = before - wider < BigInt(begins) ? BigInt(begins) : before - wider;
        const found = await newest(subject, from, before, signal, gaps);
        if (found.length || from <= BigInt(begins)) {
          items.append(...found.reverse().map((each) => changeOf(each, false)));
          break;
        }
      }
      before = from;
      more.hidden = before <= BigInt(begins);
    };
    await earlier();
    follow(subject, end, items, state, signal, gaps);
    return [gaps, note, items, more];
  });
}

async function newest(subject, from, to, signal, gaps) {
  const found = [];
  let token = '';
  if (from >= to) return found;
  do {
    const page = await call('ListChanges', token ? { subject, pageToken: token } : { subject, from: { offset: String(from) }, to: { offset: String(to) } }, signal);
    found.push(...(page.changes ?? []));
    noteGaps(gaps, page);
    token = page.nextPageToken ?? '';
  } while (token);
  return found.slice(-SHOWN_MAX);
}

function noteGaps(gaps, page) {
  for (const { afterOffset = 0, untilOffset = 0 } of page.gaps ?? []) {
    const text = `Changes after offset ${afterOffset} are told at ${untilOffset}: a checkpoint has replaced them.`;
    if (![...gaps.children].some((each) => each.textContent === text)) gaps.append(el('div', {}, text));
  }
}

function follow(subject, end, items, state, signal, gaps) {
  let source = null;
  let at = end;
  const begin = () => {
    source = watch({ subject, from_offset: at }, {
      heard: (part) => {
        state.textContent = `live · offset ${number(part.nextOffset ?? 0)}`;
        noteGaps(gaps, part);
        for (const each of part.changes ?? []) items.prepend(changeOf(each, true));
        while (items.children.length > SHOWN_MAX) items.lastChild.remove();
        at = part.nextOffset ?? at;
      },
      refused: (error) => { state.textContent = `not live: ${error.message}`; },
      lost: (isClosed) => {
        state.textContent = 'not live: the connection is lost, and tried again';
        if (isClosed && !signal.aborted) setTimeout(() => signal.aborted || begin(), 5000);
      },
    });
  };
  begin();
  signal.addEventListener('abort', () => source.close());
}
