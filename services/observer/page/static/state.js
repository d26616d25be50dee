// The state as it is: the quorum, topics and partitions, brokers, findings.

import { call, literal, query } from './rpc.js';
import { el, filling, link, number, place, plural, table, tile } from './dom.js';

const ROWS = 50;
const KINDS = {
  '': 'all', offline: 'without a leader', under_min_isr: 'under min ISR', under_replicated: 'under-replicated',
  at_min_isr: 'at min ISR', not_preferred_leader: 'not led by their first replica', reassigning: 'being reassigned',
};

const list = (json) => JSON.parse(json ?? '[]').join(', ');
const ago = (ms) => Number(ms ?? 0) < 0 ? 'never' : `${number(ms ?? 0)} ms ago`;
const offsetOf = (value) => Number(value ?? 0) < 0 ? null : number(value ?? 0);

/** Is a restart safe once those of `after` are back, and not before? */
const isLater = (each) => (each.after ?? []).length > 0;

/** What is said of a restart that is safe now, or once those before it are back. */
const safety = (found) => isLater(found) ? el('span', { class: 'warn' }, `not before ${found.after.join(', ')} ${found.after.length > 1 ? 'are' : 'is'} back`)
  : el('span', { class: 'good' }, 'safe now');

function voterRestart(found) {
  if (!found) return null;
  return found.isSafe || isLater(found) ? safety(found)
    : el('span', { class: 'error' }, `not safe: without it ${plural((found.others ?? []).length, 'voter')} keep up`);
}

export function quorum(box, signal) {
  const fill = filling(box);
  const look = () => fill(async () => {
    const found = await call('ExamineQuorum', {}, signal);
    const leader = found.leaderId ?? 0;
    const restarts = new Map((found.restarts ?? []).map((each) => [each.voterId ?? 0, each]));
    const safe = (found.restarts ?? []).filter((each) => each.isSafe || isLater(each)).map((each) => each.voterId ?? 0);
    const voters = found.voters ?? [];
    return [
      el('h2', {}, 'Quorum'),
      el('div', { class: 'tiles' }, tile('leader', leader), tile('epoch', found.leaderEpoch ?? 0),
        tile('high watermark', number(found.highWatermark ?? 0)), tile('voters, a majority is ' + (found.majority ?? 0), voters.length),
        tile('voters behind', voters.filter((each) => each.trouble).length, voters.some((each) => each.trouble) ? 'warn' : 'good')),
      table('Voters', [
        ['voter', (each) => `${each.replicaId ?? 0}${(each.replicaId ?? 0) === leader ? ' · leader' : ''}`],
        ['log end', (each) => offsetOf(each.logEndOffset), true],
        ['lag', (each) => offsetOf(each.lag), true],
        ['fetched', (each) => (each.replicaId ?? 0) === leader ? null : ago(each.fetchedMs), true],
        ['had all', (each) => (each.replicaId ?? 0) === leader ? null : ago(each.caughtUpMs), true],
        ['keeps up', (each) => each.trouble ? el('span', { class: 'warn' }, each.trouble) : el('span', { class: 'good' }, 'yes')],
        ['restart', (each) => voterRestart(restarts.get(each.replicaId ?? 0))],
      ], voters),
      el('p', {}, safe.length ? `Restart one at a time, the next once it keeps up: ${safe.join(', ')}.` : 'No voter can be restarted safely now.'),
      el('h3', {}, 'Observers'),
      table('Observers', [
        ['observer', (each) => each.replicaId ?? 0],
        ['log end', (each) => offsetOf(each.logEndOffset), true],
        ['lag', (each) => offsetOf(each.lag), true],
      ], found.observers ?? []),
    ];
  });
  look();
  const timer = setInterval(() => document.hidden || look(), 2000);
  signal.addEventListener('abort', () => clearInterval(timer));
}

// A list that is asked for page by page: each page begins after the last row of the one before.
function paged(box, ask, draw, signal) {
  const rows = [];
  const fill = filling(box);
  let hasMore = false;
  const drawn = () => [...draw(rows), hasMore ? el('button', { type: 'button', onclick: more }, 'More')
    : el('p', { class: 'soft' }, rows.length ? 'That is all.' : 'Nothing.')];
  const more = () => fill(async () => {
    const page = await ask(rows.at(-1), signal);
    rows.push(...page.rows);
    hasMore = page.hasMore;
    return drawn();
  });
  return { first: more(), again: () => fill(async () => drawn()) };
}

function search(label, value, submit, ...others) {
  const field = el('input', { type: 'search', name: 'search', value, 'data-search': true, autocomplete: 'off' });
  return el('form', { onsubmit: (event) => { event.preventDefault(); submit(Object.fromEntries(new FormData(event.target))); } },
    el('label', {}, label, field), others, el('button', { class: 'main' }, 'Search'));
}

export function topics(box, signal, given, go) {
  if (given.topic) return topic(box, signal, given.topic);
  const kind = KINDS[given.kind] === undefined ? '' : given.kind ?? '';
  const choice = el('label', {}, 'partitions', el('select', { name: 'kind' },
    Object.entries(KINDS).map(([value, name]) => el('option', { value, selected: value === kind }, name))));
  const body = el('div');
  box.append(el('h2', {}, 'Topics'), search('name has', given.search ?? '', (asked) => go('topics', asked), choice), body);
  const has = (column) => given.search ? ` AND instr(lower(${column}), lower(${literal(given.search)})) > 0` : '';
  if (kind) {
    return paged(body, (last) => query(`SELECT topic, partition_id, leader, replicas, isr FROM ${kind} WHERE ` +
      `${last ? `(topic, partition_id) > (${literal(last[0])}, ${last[1]})` : 'true'}${has('topic')} ` +
      `ORDER BY topic, partition_id LIMIT ${ROWS + 1}`, ROWS, signal), (rows) => [partitions(rows)], signal);
  }
  return paged(body, (last) => query('SELECT name, (SELECT count(*) FROM partitions AS p WHERE p.topic = t.name), topic_id FROM topics AS t ' +
    `WHERE ${last ? `name > ${literal(last[0])}` : 'true'}${has('name')} ORDER BY name LIMIT ${ROWS + 1}`, ROWS, signal),
  (rows) => [table('Topics', [
    ['topic', (row) => link(row[0], place('topics', { topic: row[0] }))],
    ['partitions', (row) => number(row[1]), true],
    ['id', (row) => el('code', {}, row[2])],
  ], rows)], signal);
}

function partitions(rows) {
  return table('Partitions', [
    ['partition', (row) => link(`${row[0]}-${row[1]}`, place('topics', { topic: row[0] }))],
    ['leader', (row) => row[2] < 0n ? el('span', { class: 'error' }, 'none') : row[2], true],
    ['replicas', (row) => list(row[3])],
    ['ISR', (row) => el('span', { class: JSON.parse(row[4]).length < JSON.parse(row[3]).length && 'warn' }, list(row[4]) || 'empty')],
  ], rows);
}

function topic(box, signal, name) {
  const body = el('div'); const configs = el('div'); const found = el('div');
  box.append(el('h2', {}, `Topic ${name}`), el('p', {}, link('All topics', '#topics'), ' · ', link('What changed', place('changes', { subject: `topic/${name}` }))),
    body, el('h3', {}, 'Configs'), configs, el('h3', {}, 'Findings'), found);
  filling(configs)(async () => {
    const answer = await query(`SELECT name, value FROM configs WHERE resource_type = 'TOPIC' AND resource_name = ${literal(name)} ORDER BY name LIMIT 201`, 200, signal);
    return answer.rows.length ? [table('Configs', [['config', (row) => row[0]], ['value', (row) => row[1]]], answer.rows)] : [el('p', { class: 'soft' }, 'None of its own.')];
  });
  filling(found)(async () => findingList(await call('Examine', { search: name, limit: 20 }, signal)));
  return paged(body, (last) => query('SELECT topic, partition_id, leader, replicas, isr FROM partitions ' +
    `WHERE topic = ${literal(name)} AND partition_id > ${last ? last[1] : -1} ORDER BY partition_id LIMIT ${ROWS + 1}`, ROWS, signal), (rows) => [partitions(rows)], signal);
}

// What takes the state's whole length, the load and the examination, is filled in once it is there.
export function brokers(box, signal) {
  const body = el('div');
  const problems = el('div');
  box.append(el('h2', {}, 'Brokers'), problems, body);
  let loads = new Map();
  let restarts = null;
  const list = paged(body, (last) => query('SELECT broker_id, rack, fenced, in_controlled_shutdown FROM brokers ' +
    `WHERE broker_id > ${last ? last[0] : -1} ORDER BY broker_id LIMIT ${ROWS + 1}`, ROWS, signal), (rows) => {
    const load = (row, at) => loads.has(String(row[0])) ? number(loads.get(String(row[0]))[at]) : '…';
    const safe = (restarts ?? []).filter((each) => !each.harmedCount || isLater(each)).map((each) => each.brokerId ?? 0);
    const byBroker = new Map((restarts ?? []).map((each) => [String(each.brokerId ?? 0), each]));
    return [
      restarts === null ? null : el('p', {}, safe.length ? `Restart one at a time, the next once it is back in every ISR: ${safe.slice(0, 100).join(', ')}${safe.length > 100 ? ' …' : ''}.` : 'No broker can be restarted safely now.'),
      table('Brokers', [
        ['broker', (row) => row[0]],
        ['rack', (row) => row[1]],
        ['state', (row) => row[2] ? el('span', { class: 'error' }, 'fenced') : row[3] ? el('span', { class: 'warn' }, 'shutting down') : el('span', { class: 'good' }, 'active')],
        ['replicas', (row) => load(row, 1), true],
        ['leaders', (row) => load(row, 2), true],
        ['not in sync', (row) => load(row, 3) === '0' ? '0' : el('span', { class: 'warn' }, load(row, 3)), true],
        ['restart', (row) => restarts === null ? '…' : restart(byBroker.get(String(row[0])))],
        ['more', (row) => el('span', {}, link('findings', place('findings', { search: `broker ${row[0]}` })), ' ', link('changes', place('changes', { subject: `broker/${row[0]}` })))],
      ], rows),
    ].filter(Boolean);
  }, signal);
  const later = async (what, ask, take) => {
    try {
      take(await ask);
      await list.first;
      if (!signal.aborted) await list.again();
    } catch (error) {
      if (error.name !== 'AbortError') problems.append(el('p', { class: 'problem', role: 'alert' }, `${what}: ${error.message}`));
    }
  };
  const load = query('SELECT broker_id, replicas, leaders, not_in_sync FROM broker_load', 100000, signal);
  return Promise.all([
    later('load', load, (answer) => { loads = new Map(answer.rows.map((row) => [String(row[0]), row])); }),
    later('restarts', call('Examine', { limit: 1 }, signal), (answer) => { restarts = answer.restartsOutdated ? null : answer.restarts ?? []; }),
  ]);
}

function restart(found) {
  if (!found) return null;
  if (!found.harmedCount || isLater(found)) return safety(found);
  return el('span', { class: 'error', title: (found.harmed ?? []).join('\n') }, `not safe, for ${plural(found.harmedCount, 'partition')}: ${found.harmed?.[0] ?? ''}`);
}

function findingList(answer) {
  const found = answer.findings ?? [];
  if (!found.length) return [el('p', { class: 'soft' }, 'None.')];
  return found.map((each) => el('div', { class: `finding is-${each.severity}` },
    el('p', {}, el('b', { class: each.severity }, each.severity), ' ', el('code', {}, each.code), ' ', el('b', {}, each.subject)),
    el('p', {}, each.sentence), el('p', { class: 'soft' }, each.advice)));
}

export function findings(box, signal, given, go) {
  const body = el('div');
  box.append(el('h2', {}, 'Findings'), search('code, subject or text has', given.search ?? '', (asked) => go('findings', asked)), body);
  const rows = [];
  const fill = filling(body);
  const more = () => fill(async () => {
    const answer = await call('Examine', { search: given.search ?? '', skip: rows.length, limit: ROWS }, signal);
    rows.push(...(answer.findings ?? []));
    const of = (severity) => answer.counts?.[severity] ?? 0;
    return [
      el('div', { class: 'tiles' }, tile('errors', number(of('error')), of('error') && 'error'), tile('warnings', number(of('warn')), of('warn') && 'warn'), tile('notes', number(of('info'))), tile('as of offset', number(answer.nextOffset ?? 0))),
      ...findingList({ findings: rows }),
      rows.length < (answer.matchingCount ?? 0) ? el('button', { type: 'button', onclick: more }, 'More') : el('p', { class: 'soft' }, 'Of voters and of what takes the history nothing is said here.'),
    ];
  });
  return more();
}
