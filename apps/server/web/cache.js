// The live map of the cache: layer groups by pages, from GET /kv while it can be seen.
import {getJson} from './api.js';
import {byId, el, formatBytes, formatCount} from './dom.js';

const STATES = [
  ['pinned', 'Pinned', 'first tokens that are never dropped'],
  ['shared', 'Shared', 'used by more than one sequence'],
  ['used', 'Used', 'by one sequence'],
  ['held', 'Held', 'kept for prompts that begin alike'],
  ['free', 'Free', ''],
];
const BUSY_MS = 1000;
const IDLE_MS = 3000;
const SQUARE = 10;    // pixels, and between two of them
const GAP = 3;
const MAX_ROWS = 10;  // of a group; more pages share a square

// How many pages of a group are in which state.
export function countStates(group, index, sequences) {
  const keepPages = Math.ceil((group.keep ?? 0) / (group.page_tokens || 64));
  const holders = new Map();
  const pinned = new Set();
  for (const sequence of sequences) {
    const pages = sequence.pages?.[index] ?? [];
    pages.forEach((page, i) => {
      holders.set(page, (holders.get(page) ?? 0) + 1);
      if (i < keepPages) pinned.add(page);
    });
  }
  const counts = {pinned: pinned.size, shared: 0, used: 0, held: 0, free: 0};
  for (const [page, holding] of holders) {
    if (pinned.has(page)) continue;
    if (holding > 1) counts.shared += 1;
    else counts.used += 1;
  }
  counts.held = Math.max(0, group.pages_used - holders.size);
  counts.free = Math.max(0, group.pages_total - group.pages_used);
  return counts;
}

// [[state, squares]], and how many pages a square stands for, so that there are `most` of them or
// little more: a state that has pages has a square.
export function squares(counts, most) {
  const total = Object.values(counts).reduce((sum, count) => sum + count, 0);
  const pages = Math.max(1, Math.ceil(total / most));
  return {pages, runs: STATES.map(([state]) => [state, Math.ceil(counts[state] / pages)])};
}

function layersText(layers) {
  const runs = [];
  for (const layer of layers) {
    const run = runs.at(-1);
    if (run && run[1] === layer - 1) run[1] = layer;
    else runs.push([layer, layer]);
  }
  const shown = runs.map(([first, last]) => (first === last ? `${first}` : `${first}–${last}`));
  return shown.length > 6 ? `${shown.slice(0, 5).join(', ')}, … ${shown.at(-1)}` : shown.join(', ');
}

function sight(group) {
  const parts = [];
  if (group.window) parts.push(`window ${formatCount(group.window)}`);
  if (group.keep) parts.push(`keep ${formatCount(group.keep)}`);
  return parts.join(', ') || 'all tokens';
}

const bits = (codec) => (/^\d+$/.test(codec) ? `${codec} bits` : String(codec));
const codec = (group) => (group.k === group.v ? bits(group.k) : `K ${bits(group.k)}, V ${bits(group.v)}`);
const tier = (group) => (group.hot === true ? 'hot tier' : typeof group.hot === 'string' && group.hot !== '' ? `hot tier ${group.hot}` : group.before_start ? 'before start' : '');

// ---- drawing ----

function colours(node) {
  const style = getComputedStyle(node);
  return Object.fromEntries(STATES.map(([state]) => [state, [style.getPropertyValue(`--${state}`), style.getPropertyValue(`--${state}-mark`)]]));
}

// A square and the sign of its state: colour is never all that tells.
function square(context, state, [fill, mark], x, y, size) {
  if (state === 'free') {
    context.strokeStyle = fill;
    context.lineWidth = 1;
    context.strokeRect(x + 0.5, y + 0.5, size - 1, size - 1);
    return;
  }
  context.fillStyle = fill;
  context.fillRect(x, y, size, size);
  context.strokeStyle = context.fillStyle = mark;
  context.lineWidth = Math.max(1, size / 8);
  context.beginPath();
  if (state === 'pinned') {
    const dot = Math.max(2, Math.round(size / 3));
    context.fillRect(x + (size - dot) / 2, y + (size - dot) / 2, dot, dot);
  } else if (state === 'shared') {
    context.moveTo(x + 1, y + size - 1);
    context.lineTo(x + size - 1, y + 1);
    context.moveTo(x + 1, y + 1);
    context.lineTo(x + size - 1, y + size - 1);
  } else if (state === 'held') {
    context.moveTo(x + 1, y + size - 1);
    context.lineTo(x + size - 1, y + 1);
  }
  context.stroke();
}

const columnsIn = (width) => Math.max(1, Math.floor((width + GAP) / (SQUARE + GAP)));

function draw(canvas, runs) {
  const width = canvas.parentNode.clientWidth;
  if (!width) return;
  const columns = columnsIn(width);
  const total = runs.reduce((sum, [, count]) => sum + count, 0);
  const rows = Math.max(1, Math.ceil(total / columns));
  const ratio = devicePixelRatio || 1;
  const height = rows * (SQUARE + GAP) - GAP;
  if (canvas.width !== Math.round(width * ratio) || canvas.height !== Math.round(height * ratio)) {
    canvas.width = Math.round(width * ratio);
    canvas.height = Math.round(height * ratio);
    canvas.style.width = `${width}px`;
    canvas.style.height = `${height}px`;
  }
  const context = canvas.getContext('2d');
  context.setTransform(ratio, 0, 0, ratio, 0, 0);
  context.clearRect(0, 0, width, height);
  const palette = colours(canvas);
  let cell = 0;
  for (const [state, count] of runs) {
    for (let i = 0; i < count; i += 1, cell += 1)
      square(context, state, palette[state], (cell % columns) * (SQUARE + GAP), Math.floor(cell / columns) * (SQUARE + GAP), SQUARE);
  }
}

function stateWords(counts) {
  return STATES.filter(([state]) => counts[state] > 0).map(([state, label]) => `${formatCount(counts[state])} ${label.toLowerCase()}`).join(', ');
}

function table(caption, heads, rows) {
  return el('table', {}, el('caption', {}, caption),
    el('thead', {}, el('tr', {}, heads.map((head) => el('th', {scope: 'col'}, head)))),
    el('tbody', {}, rows.map(([first, ...rest]) => el('tr', {}, el('th', {scope: 'row'}, first), rest.map((cell) => el('td', {}, String(cell)))))));
}

export class CacheMap {
  constructor() {
    this.views = [];
    this.state = null;
    this.timer = 0;
    this.asking = null;
    byId('cache-legend').append(...STATES.map(([state, label, what]) => {
      const canvas = el('canvas', {'aria-hidden': 'true', class: 'swatch'});
      canvas.dataset.state = state;
      return el('li', {}, canvas, el('strong', {}, label), what ? el('span', {class: 'fine'}, what) : null);
    }));
    this.observer = new ResizeObserver(() => this.redraw());
    this.observer.observe(byId('cache-groups'));
    document.addEventListener('visibilitychange', () => this.wake());
    matchMedia('(prefers-color-scheme: dark)').addEventListener('change', () => this.redraw());
    new MutationObserver(() => this.redraw()).observe(document.documentElement, {attributeFilter: ['data-theme']});
  }

  seen() { return !document.hidden && byId('cache').offsetParent !== null; }

  // Asks now if the map can be seen, and goes on asking while it can.
  wake() {
    clearTimeout(this.timer);
    this.timer = 0;
    if (this.seen()) this.poll();
    else this.asking?.abort();
  }

  async poll() {
    if (this.asking) return;
    this.asking = new AbortController();
    try {
      this.show(await getJson('kv', {signal: this.asking.signal, ask: false}));
      this.note('');
    } catch (error) {
      if (error.name !== 'AbortError') this.note(error.message);
    }
    this.asking = null;
    clearTimeout(this.timer);
    if (this.seen()) this.timer = setTimeout(() => this.poll(), this.state?.sequences?.length ? BUSY_MS : IDLE_MS);
  }

  note(text) {
    const note = byId('cache-note');
    note.hidden = !text;
    if (note.textContent !== text) note.textContent = text;
  }

  show(state) {
    this.state = state;
    byId('cache-body').hidden = false;
    this.totals(state.totals ?? {});
    if (this.views.length !== state.groups.length) {
      this.views = state.groups.map(() => {
        const canvas = el('canvas', {role: 'img'});
        return {canvas, head: el('h3'), line: el('p', {class: 'fine'}), words: el('p', {class: 'fine'}), box: el('div', {class: 'map'}, canvas)};
      });
      byId('cache-groups').replaceChildren(...this.views.map((view) => el('section', {class: 'group'}, view.head, view.line, view.box, view.words)));
    }
    const rows = state.groups.map((group, i) => this.group(group, i, state.sequences ?? []));
    byId('cache-table').replaceChildren(table('Groups of layers', ['Layers', 'Kind', 'Sees', 'Codec', ...STATES.map(([, label]) => label), 'Bytes'], rows));
    this.sequences(state.sequences ?? []);
    this.legend();
  }

  totals(totals) {
    const capacity = (totals.kv_bytes ?? 0) + (totals.kv_prefill_bytes ?? 0);
    const item = (label, value) => el('div', {}, el('dt', {}, label), el('dd', {}, value));
    const items = [item('In use', formatBytes(totals.bytes_used ?? 0))];
    if (capacity) items.push(item('Planned', formatBytes(capacity)));
    if (totals.prefix_cache_bytes) items.push(item('Prefixes, at most', formatBytes(totals.prefix_cache_bytes)));
    if (totals.running !== undefined) items.push(item('Running', `${totals.running}${totals.waiting ? ` + ${totals.waiting} waiting` : ''}`));
    if (totals.prefix_hits !== undefined) items.push(item('Prefix hits', formatCount(totals.prefix_hits)));
    if (totals.prompt_tokens) {
      const share = Math.round(100 * (totals.cached_tokens ?? 0) / totals.prompt_tokens);
      items.push(item('Prompt from cache', `${share} %`));
    }
    if (totals.preemptions) items.push(item('Set back', formatCount(totals.preemptions)));
    byId('cache-totals').replaceChildren(...items);
  }

  group(group, index, sequences) {
    const view = this.views[index];
    const counts = countStates(group, index, sequences);
    const {pages, runs} = squares(counts, MAX_ROWS * columnsIn(view.box.clientWidth));
    const text = (node, value) => { if (node.textContent !== value) node.textContent = value; };
    const kind = [group.kind, tier(group)].filter(Boolean).join(', ');
    text(view.head, [`Layers ${layersText(group.layers)}`, tier(group)].filter(Boolean).join(', '));
    text(view.line, [group.kind, sight(group), codec(group), formatBytes(group.bytes_used)].join(' · '));
    text(view.words, `${stateWords(counts)}${pages > 1 ? ` (a square: ${pages} pages)` : ''}`);
    view.canvas.setAttribute('aria-label', `Pages: ${stateWords(counts)}`);
    view.runs = runs;
    draw(view.canvas, runs);
    return [layersText(group.layers), kind, sight(group), codec(group), ...STATES.map(([state]) => formatCount(counts[state])), formatBytes(group.bytes_used)];
  }

  sequences(sequences) {
    const box = byId('cache-sequences');
    if (!sequences.length) {
      box.replaceChildren(el('p', {class: 'fine'}, 'None is running.'));
      return;
    }
    const shown = sequences.slice(0, 50);
    box.replaceChildren(el('div', {class: 'table-scroll', tabindex: '0', role: 'region', 'aria-label': 'Sequences'},
      table('', ['Sequence', 'State', 'Tokens', 'Prompt', 'Cached'], shown.map((sequence) =>
        [`${sequence.id}`, sequence.state, formatCount(sequence.length), formatCount(sequence.prompt_tokens), formatCount(sequence.cached_tokens)]))),
    sequences.length > shown.length ? el('p', {class: 'fine'}, `and ${sequences.length - shown.length} more`) : '');
  }

  legend() {
    const palette = colours(byId('cache-legend'));
    const ratio = devicePixelRatio || 1;
    for (const canvas of document.querySelectorAll('canvas.swatch')) {
      canvas.width = canvas.height = Math.round(12 * ratio);
      const context = canvas.getContext('2d');
      context.scale(ratio, ratio);
      square(context, canvas.dataset.state, palette[canvas.dataset.state], 0, 0, 12);
    }
  }

  redraw() {
    if (this.state) this.show(this.state);
  }
}
