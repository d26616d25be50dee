// The page: which part is shown, by the address after #, and what the line at the top says.

import { call } from './rpc.js';
import { el, number, place } from './dom.js';
import { brokers, findings, quorum, topics } from './state.js';
import { changes } from './past.js';
import { traces } from './traces.js';
import { sql } from './sql.js';

const PARTS = { quorum, brokers, topics, findings, changes, traces, sql };
const NAMES = { quorum: 'Quorum', brokers: 'Brokers', topics: 'Topics', findings: 'Findings', changes: 'Changes', traces: 'Traces', sql: 'SQL' };
const LOOK_MS = 5000;

const main = document.getElementById('main');
const nav = document.querySelector('nav');
let shownPart = new AbortController();

function go(part, parameters) {
  const to = place(part, parameters);
  if (to === location.hash) show();
  else location.hash = to;
}

function show() {
  const [name, parameters] = location.hash.slice(1).split('?');
  const part = PARTS[name] ? name : 'quorum';
  shownPart.abort();
  shownPart = new AbortController();
  for (const each of nav.children) {
    if (each.dataset.part === part) each.setAttribute('aria-current', 'page');
    else each.removeAttribute('aria-current');
  }
  document.title = `${NAMES[part]} · Quorate`;
  const box = el('section', { 'data-part': part });
  main.replaceChildren(box);
  PARTS[part](box, shownPart.signal, Object.fromEntries(new URLSearchParams(parameters ?? '')), go);
}

let cluster = null;

async function look() {
  if (document.hidden) return;
  const at = document.getElementById('at');
  try {
    cluster ??= (await call('DescribeCluster')).clusterId;
    const found = await call('ExamineQuorum');
    at.textContent = `cluster ${cluster ?? '?'} · leader ${found.leaderId ?? 0} · epoch ${found.leaderEpoch ?? 0} · offset ${number(found.highWatermark ?? 0)}`;
  } catch (error) {
    at.textContent = error.message;
  }
}

function key(event) {
  if (event.ctrlKey || event.metaKey || event.altKey || event.target.closest('input, textarea, select')) return;
  if (event.key === '/') {
    const field = main.querySelector('[data-search]');
    if (field) { event.preventDefault(); field.focus(); }
  }
  const part = Object.keys(PARTS)[Number(event.key) - 1];
  if (part) { go(part, {}); main.focus(); }
}

nav.append(...Object.keys(PARTS).map((each) => el('a', { href: `#${each}`, 'data-part': each }, NAMES[each])));
addEventListener('hashchange', show);
addEventListener('keydown', key);
show();
look();
setInterval(look, LOOK_MS);
