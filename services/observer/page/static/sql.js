// A box for questions in SQL: what may be asked, and how much is answered, the observer decides.

import { query } from './rpc.js';
import { el, filling, number, plural, shown } from './dom.js';

const ROWS = 1000;
const EXAMPLES = [
  'SELECT * FROM rack_load',
  'SELECT topic, count(*) AS partitions FROM under_replicated GROUP BY topic ORDER BY 2 DESC LIMIT 20',
  "SELECT resource_type, resource_name, name, value FROM configs ORDER BY 1, 2, 3 LIMIT 100",
  'SELECT * FROM features',
  'SELECT * FROM columns LIMIT 500',
];

export function sql(box, signal, given, go) {
  const body = el('div');
  const text = el('textarea', { name: 'ask', 'data-search': true, spellcheck: 'false', 'aria-label': 'A question in SQL' });
  text.value = given.ask ?? EXAMPLES[0];
  const submit = (event) => { event.preventDefault(); go('sql', { ask: text.value }); };
  const form = el('form', { onsubmit: submit }, el('label', { class: 'wide' }, 'One SELECT; Ctrl+Enter asks', text), el('button', { class: 'main' }, 'Ask'));
  text.addEventListener('keydown', (event) => { if (event.key === 'Enter' && (event.ctrlKey || event.metaKey)) form.requestSubmit(); });
  box.append(el('h2', {}, 'SQL'), form, el('details', {}, el('summary', {}, 'Examples'),
    EXAMPLES.map((each) => el('p', {}, el('button', { type: 'button', class: 'plain', onclick: () => go('sql', { ask: each }) }, each)))), body);
  if (!given.ask) return null;
  return filling(body)(async () => {
    const begun = performance.now();
    const answer = await query(given.ask, ROWS, signal);
    const count = answer.hasMore ? `The first ${number(ROWS)} rows; there are more` : plural(answer.rows.length, 'row');
    return [
      el('p', { class: 'soft' }, `${count}, as of offset ${number(answer.offset)}, in ${(performance.now() - begun).toFixed(0)} ms`),
      el('div', { class: 'wide-table', tabindex: '0', role: 'region', 'aria-label': 'The answer' }, el('table', {},
        el('thead', {}, el('tr', {}, answer.columns.map((each) => el('th', { scope: 'col' }, each)))),
        el('tbody', {}, answer.rows.map((row) => el('tr', {}, row.map((each) => el('td', { class: typeof each === 'bigint' || typeof each === 'number' ? 'number' : undefined }, shown(each)))))))),
    ];
  });
}
