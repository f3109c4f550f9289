// Small helpers for the document. Nothing here or elsewhere sets HTML from a string.

// el('p', {class: 'x', onclick: f}, 'text', node): an element. Text is always text.
export function el(tag, props = {}, ...children) {
  const node = document.createElement(tag);
  for (const [key, value] of Object.entries(props)) {
    if (value === undefined || value === null || value === false) continue;
    if (key.startsWith('on')) node.addEventListener(key.slice(2), value);
    else if (key === 'class') node.className = value;
    else if (key in node && typeof value !== 'string') node[key] = value;
    else node.setAttribute(key, value);
  }
  node.append(...children.flat(Infinity).filter((child) => child !== null && child !== undefined));
  return node;
}

export const byId = (id) => document.getElementById(id);

const PATHS = {
  menu: 'M4 6h16M4 12h16M4 18h16',
  gear: 'M4 7h9m5 0h2M4 17h2m5 0h9M15.5 4.5a2.5 2.5 0 1 1 0 5a2.5 2.5 0 0 1 0-5zM8.5 14.5a2.5 2.5 0 1 1 0 5a2.5 2.5 0 0 1 0-5z',
  close: 'M6 6l12 12M18 6L6 18',
  copy: 'M9 9h11v11H9zM5 15H4V4h11v1',
  done: 'M5 13l4 4L19 7',
  redo: 'M20 11a8 8 0 1 0-2.3 6.3M20 4v7h-7',
  edit: 'M4 20h4L19 9l-4-4L4 16zM13.5 6.5l4 4',
  trash: 'M5 7h14M10 7V4h4v3M7 7l1 13h8l1-13',
};

export function icon(name) {
  const svg = document.createElementNS('http://www.w3.org/2000/svg', 'svg');
  svg.setAttribute('viewBox', '0 0 24 24');
  svg.setAttribute('aria-hidden', 'true');
  svg.setAttribute('class', 'icon');
  const path = document.createElementNS('http://www.w3.org/2000/svg', 'path');
  path.setAttribute('d', PATHS[name]);
  svg.append(path);
  return svg;
}

export function iconButton(name, label, onclick) {
  return el('button', {type: 'button', class: 'icon-button small', title: label, 'aria-label': label, onclick},
    icon(name));
}

// For screen readers: said politely, never more often than every few seconds, so that a reply that
// streams does not interrupt itself.
const QUIET_MS = 3000;
let waiting = '';
let timer = 0;
export function announce(text, now = false) {
  waiting = `${waiting} ${text}`.trim();
  if (now) clearTimeout(timer);
  if (timer && !now) return;
  const say = () => {
    timer = 0;
    if (!waiting) return;
    byId('announcer').textContent = waiting;
    waiting = '';
    timer = setTimeout(say, QUIET_MS);
  };
  say();
}

export function formatBytes(bytes) {
  const units = ['B', 'KiB', 'MiB', 'GiB', 'TiB'];
  let unit = 0;
  let value = bytes;
  while (value >= 1024 && unit < units.length - 1) {
    value /= 1024;
    unit += 1;
  }
  return `${unit && value < 100 ? value.toFixed(1) : Math.round(value)} ${units[unit]}`;
}

export const formatCount = (count) => Number(count).toLocaleString('en');

export async function copyText(text, button, label) {
  let ok = true;
  try {
    await navigator.clipboard.writeText(text);
  } catch {  // not a secure context: the old way
    const area = el('textarea', {class: 'offscreen'});
    area.value = text;
    document.body.append(area);
    area.select();
    ok = document.execCommand('copy');
    area.remove();
    button.focus();
  }
  const was = button.firstChild;
  button.replaceChildren(icon(ok ? 'done' : 'close'), ...[...button.childNodes].slice(1));
  announce(ok ? `${label} copied` : 'Copying was not allowed', true);
  setTimeout(() => button.firstChild?.replaceWith(was), 1500);
}

// Asks; resolves to true or false. Focus goes back by itself.
export function confirmThat(text, yes = 'Delete') {
  const dialog = byId('confirm');
  byId('confirm-text').textContent = text;
  byId('confirm-yes').textContent = yes;
  dialog.returnValue = 'no';
  dialog.showModal();
  return new Promise((resolve) => {
    dialog.addEventListener('close', () => resolve(dialog.returnValue === 'yes'), {once: true});
  });
}
