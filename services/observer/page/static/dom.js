// What the page is made of. A text is always a text node: nothing that comes from the log is read as HTML.

export function el(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === undefined || value === null || value === false) continue;
    if (name.startsWith('on')) made.addEventListener(name.slice(2), value);
    else made.setAttribute(name, value === true ? '' : value);
  }
  made.append(...children.flat(Infinity).filter((each) => each !== null && each !== undefined).map((each) => each instanceof Node ? each : String(each)));
  return made;
}

export const link = (text, to) => el('a', { href: to }, text);

export const place = (part, parameters = {}) => {
  const given = Object.entries(parameters).filter(([, value]) => value !== '' && value !== undefined && value !== null);
  return `#${part}${given.length ? `?${new URLSearchParams(given)}` : ''}`;
};

export function shown(value) {
  if (value === null || value === undefined) return el('span', { class: 'soft' }, '–');
  if (value === '') return el('span', { class: 'soft' }, '(empty)');
  if (typeof value === 'bigint') return String(value);
  return value instanceof Node ? value : String(value);
}

// A table whose rows are cards on a phone: columns are [title, what makes a cell of a row, is it a number].
export function table(caption, columns, rows) {
  return el('table', { class: 'cards', 'aria-label': caption },
    el('thead', {}, el('tr', {}, columns.map(([title, , isNumber]) => el('th', { scope: 'col', class: isNumber && 'number' }, title)))),
    el('tbody', {}, rows.map((row) => el('tr', {}, columns.map(([title, cell, isNumber]) =>
      el('td', { 'data-of': title, class: isNumber && 'number' }, shown(cell(row))))))));
}

export const tile = (name, value, kind = '') => el('div', { class: 'tile' }, el('b', { class: kind }, shown(value)), el('span', {}, name));

export const problem = (error) => el('p', { class: 'problem', role: 'alert' }, error.message);

export const time = (ms) => {
  const number = Number(ms ?? 0);
  return number > 0 ? new Date(number).toISOString().replace('T', ' ').replace(/\.\d+Z/, 'Z') : '–';
};

// The name of an RPC without its package and service, as the command's waterfall has it.
export const short = (name) => name.slice(name.lastIndexOf('/') + 1) || '(no name)';

export const plural = (count, one) => `${count} ${one}${Number(count) === 1 ? '' : 's'}`;

export const number = (value) => Number(value).toLocaleString('en');

export function took(ns) {
  const us = Number(ns) / 1000;
  if (us < 1000) return `${us.toFixed(0)} µs`;
  return us < 1e6 ? `${(us / 1000).toFixed(us < 1e4 ? 2 : 1)} ms` : `${(us / 1e6).toFixed(2)} s`;
}

// A part of the page that is filled once its content is there; a later filling counts more than an earlier one.
export function filling(box) {
  let turn = 0;
  return async (make) => {
    const own = ++turn;
    box.setAttribute('aria-busy', 'true');
    let content;
    try { content = await make(); } catch (error) {
      if (error.name === 'AbortError') return;
      content = [problem(error)];
    }
    if (own !== turn) return;
    box.replaceChildren(...[content].flat());
    box.removeAttribute('aria-busy');
  };
}
