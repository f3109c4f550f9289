// Markdown to document nodes. Text of a model is untrusted: every node is made by createElement with
// textContent, HTML in the text is shown as text, links go to http and https only, and images are
// links, so that nothing is fetched by looking at a reply.
import {copyText, el, icon} from './dom.js';

const MAX_DEPTH = 8;

// ---- inline ----

export function safeUrl(text) {
  const url = text.trim();
  if (!/^https?:\/\//i.test(url) || /[\s<>"\u0000-\u001f]/.test(url)) return null;
  try {
    const parsed = new URL(url);
    return parsed.protocol === 'http:' || parsed.protocol === 'https:' ? parsed.href : null;
  } catch {
    return null;
  }
}

function link(url, children) {
  return el('a', {href: url, rel: 'noopener noreferrer nofollow', target: '_blank'}, children);
}

const MARKS = [['**', 'strong'], ['__', 'strong'], ['~~', 'del'], ['*', 'em'], ['_', 'em']];
const isWord = (c) => c !== undefined && /[\p{L}\p{N}_]/u.test(c);

// Nodes of a line of text. `gone` remembers which marks have no end any more, so that a text full of
// them takes linear time.
export function inline(text, depth = 0) {
  const nodes = [];
  const gone = new Set();
  let plain = '';
  const flush = () => {
    if (plain) nodes.push(document.createTextNode(plain));
    plain = '';
  };
  const find = (mark, from) => {
    if (gone.has(mark)) return -1;
    const at = text.indexOf(mark, from);
    if (at < 0) gone.add(mark);
    return at;
  };
  for (let i = 0; i < text.length;) {
    const c = text[i];
    if (c === '\\' && /[!-/:-@[-`{-~]/.test(text[i + 1] ?? '')) {
      plain += text[i + 1];
      i += 2;
      continue;
    }
    if (c === '`') {
      const mark = /^`+/.exec(text.slice(i, i + 64))[0];
      const end = find(mark, i + mark.length);
      if (end > 0 && text[end + mark.length] !== '`') {
        flush();
        const code = text.slice(i + mark.length, end);
        nodes.push(el('code', {}, code.length > 2 && code.startsWith(' ') && code.endsWith(' ') ?
          code.slice(1, -1) : code));
        i = end + mark.length;
        continue;
      }
      plain += mark;
      i += mark.length;
      continue;
    }
    if (c === '\n') {
      flush();
      nodes.push(el('br'));
      i += 1;
      continue;
    }
    const image = c === '!' && text[i + 1] === '[';
    if ((c === '[' || image) && depth < MAX_DEPTH) {
      const open = i + (image ? 2 : 1);
      const middle = find('](', open);
      const end = middle < 0 || middle - open > 1000 ? -1 : find(')', middle);
      const url = end < 0 ? null : safeUrl(text.slice(middle + 2, end).replace(/\s+"[^"]*"$/, ''));
      if (url) {
        flush();
        const label = text.slice(open, middle);
        nodes.push(link(url, label ? inline(label.replaceAll('](', '] ('), MAX_DEPTH) : [url]));
        i = end + 1;
        continue;
      }
    }
    if (c === 'h' && !isWord(text[i - 1])) {
      const found = /^https?:\/\/[^\s<>"'`*)\]]+/i.exec(text.slice(i, i + 2000));
      const url = found && safeUrl(found[0].replace(/[.,;:!?]+$/, ''));
      if (url) {
        const shown = found[0].replace(/[.,;:!?]+$/, '');
        flush();
        nodes.push(link(url, [shown]));
        i += shown.length;
        continue;
      }
    }
    const mark = depth < MAX_DEPTH && MARKS.find(([sign]) => text.startsWith(sign, i));
    if (mark) {
      const [sign, tag] = mark;
      const start = i + sign.length;
      const opens = text[start] !== undefined && !/\s/.test(text[start]) && !(sign[0] === '_' && isWord(text[i - 1]));
      let end = opens ? find(sign, start + 1) : -1;
      // A single mark does not end in the middle of a double one.
      if (end > 0 && sign.length === 1 && text[end + 1] === sign) end = find(sign, end + 2);
      if (end > 0 && !/\s/.test(text[end - 1]) && !(sign[0] === '_' && isWord(text[end + sign.length]))) {
        flush();
        nodes.push(el(tag, {}, inline(text.slice(start, end), depth + 1)));
        i = end + sign.length;
        continue;
      }
      plain += sign;
      i = start;
      continue;
    }
    plain += c;
    i += 1;
  }
  flush();
  return nodes;
}

// ---- blocks ----

const FENCE = /^ {0,3}(`{3,}|~{3,})\s*([^`]*)$/;
const HEADING = /^ {0,3}(#{1,6})\s+(.*?)\s*#*\s*$/;
const RULE = /^ {0,3}([-*_])(\s*\1){2,}\s*$/;
const QUOTE = /^ {0,3}> ?/;
const ITEM = /^( *)([-*+]|\d{1,9}[.)])(?:\s+|$)(.*)$/;
const DIVIDER = /^ {0,3}\|?\s*:?-+:?\s*(\|\s*:?-+:?\s*)*\|?\s*$/;

const blank = (line) => line.trim() === '';
const isTable = (lines, i) => lines[i].includes('|') && i + 1 < lines.length &&
  lines[i + 1].includes('-') && DIVIDER.test(lines[i + 1]) &&
  cells(lines[i]).length === cells(lines[i + 1]).length;
const isOrdered = (item) => /\d/.test(item[2]);
const startsBlock = (line) => FENCE.test(line) || HEADING.test(line) || RULE.test(line) || QUOTE.test(line);

// Where the block that begins at line i ends.
function blockEnd(lines, i) {
  const fence = FENCE.exec(lines[i]);
  if (fence) {
    for (let k = i + 1; k < lines.length; k += 1) {
      const line = lines[k].trim();
      if (line.startsWith(fence[1]) && line.replaceAll(fence[1][0], '') === '') return k + 1;
    }
    return lines.length;
  }
  if (HEADING.test(lines[i]) || RULE.test(lines[i])) return i + 1;
  let k = i + 1;
  if (QUOTE.test(lines[i])) {
    while (k < lines.length && !blank(lines[k]) && (QUOTE.test(lines[k]) || !startsBlock(lines[k]))) k += 1;
    return k;
  }
  const first = ITEM.exec(lines[i]);
  if (first) {
    for (; k < lines.length; k += 1) {
      const item = ITEM.exec(lines[k]);
      if (item && item[1].length < first[1].length + 2 && isOrdered(item) !== isOrdered(first)) return k;
      if (blank(lines[k])) {
        const next = lines.slice(k).findIndex((line) => !blank(line));
        if (next < 0 || !(/^ {2,}/.test(lines[k + next]) || ITEM.test(lines[k + next]))) return k;
        k += next - 1;
      } else if (startsBlock(lines[k]) && !/^ {2,}/.test(lines[k])) {
        return k;
      }
    }
    return k;
  }
  const table = isTable(lines, i);
  while (k < lines.length && !blank(lines[k]) && (table ? lines[k].includes('|') || k === i + 1 :
    !startsBlock(lines[k]) && !ITEM.test(lines[k]) && !isTable(lines, k))) k += 1;
  return k;
}

// The blocks of a text, each as its own source.
export function split(text) {
  const lines = text.replaceAll('\r\n', '\n').split('\n');
  const sources = [];
  for (let i = 0; i < lines.length;) {
    if (blank(lines[i])) {
      i += 1;
      continue;
    }
    const end = blockEnd(lines, i);
    sources.push(lines.slice(i, end).join('\n').trimEnd());
    i = end;
  }
  return sources;
}

function cells(line) {
  return line.trim().replace(/^\|/, '').replace(/(^|[^\\])\|$/, '$1')
    .split(/(?<!\\)\|/).map((cell) => cell.trim().replaceAll('\\|', '|'));
}

function table(lines) {
  const align = cells(lines[1]).map((cell) => (cell.endsWith(':') ? (cell.startsWith(':') ? 'center' : 'right') : ''));
  const row = (line, tag) => el('tr', {}, cells(line).slice(0, align.length).map((cell, i) =>
    el(tag, {class: align[i] ? `align-${align[i]}` : undefined, scope: tag === 'th' ? 'col' : undefined},
      inline(cell))));
  return el('div', {class: 'table-scroll', tabindex: '0', role: 'region', 'aria-label': 'Table'}, el('table', {},
    el('thead', {}, row(lines[0], 'th')), el('tbody', {}, lines.slice(2).map((line) => row(line, 'td')))));
}

function code(lines, fence) {
  const closed = lines.length > 1 && lines[lines.length - 1].trim().startsWith(fence[1]);
  const text = lines.slice(1, closed ? -1 : undefined).join('\n');
  const language = (fence[2].trim().split(/\s/)[0] ?? '').slice(0, 30);
  const button = el('button', {type: 'button', class: 'copy-code',
    onclick: () => copyText(text, button, 'Code')}, icon('copy'), 'Copy');
  return el('figure', {class: 'code'},
    el('figcaption', {}, el('span', {}, language || 'code'), button),
    el('pre', {tabindex: '0'}, el('code', {}, text)));
}

function list(lines, depth) {
  const first = ITEM.exec(lines[0]);
  const [, indent, marker] = first;
  const ordered = isOrdered(first);
  const items = [];
  for (const line of lines) {
    const item = ITEM.exec(line);
    if (item && item[1].length < indent.length + 2 && isOrdered(item) === ordered) {
      items.push([item[3]]);
      items.at(-1).width = item[1].length + item[2].length + 1;
    } else {
      const width = Math.min(items.at(-1).width, line.length - line.trimStart().length);
      items.at(-1).push(line.slice(width));
    }
  }
  const loose = lines.some(blank);
  const start = ordered ? parseInt(marker, 10) : 1;
  return el(ordered ? 'ol' : 'ul', {start: ordered && start !== 1 ? String(start) : undefined}, items.map((item) => {
    const task = /^\[([ xX])\]\s+/.exec(item[0]);
    if (task) item[0] = item[0].slice(task[0].length);
    const nodes = blocks(item.join('\n'), depth + 1);
    if (!loose && nodes[0]?.tagName === 'P') nodes.splice(0, 1, ...nodes[0].childNodes);
    const box = task && el('span', {class: 'task', role: 'img', 'aria-label': task[1] === ' ' ? 'to do' : 'done'},
      task[1] === ' ' ? '☐' : '☑');
    return el('li', {class: task ? 'task-item' : undefined}, box, nodes);
  }));
}

function block(source, depth) {
  const lines = source.split('\n');
  const fence = FENCE.exec(lines[0]);
  if (fence) return code(lines, fence);
  if (depth < MAX_DEPTH) {
    const heading = HEADING.exec(lines[0]);
    // The page has headings of its own above these.
    if (heading) return el(`h${Math.min(6, heading[1].length + 3)}`, {class: `heading-${heading[1].length}`}, inline(heading[2]));
    if (RULE.test(lines[0])) return el('hr');
    if (QUOTE.test(lines[0])) {
      return el('blockquote', {}, blocks(lines.map((line) => line.replace(QUOTE, '')).join('\n'), depth + 1));
    }
    if (ITEM.test(lines[0])) return list(lines, depth);
    if (lines.length > 1 && isTable(lines, 0)) return table(lines);
  }
  return el('p', {}, inline(lines.map((line) => line.trim()).join('\n')));
}

function blocks(text, depth) {
  return split(text).map((source) => block(source, depth));
}

// Shows `text` in `container`. Blocks that are there already stay as they are, so that a growing
// text costs no more than its last block, and a selection in it is kept.
export function render(container, text) {
  const sources = split(text);
  const old = container.blockSources ?? [];
  let same = 0;
  while (same < sources.length && same < old.length && sources[same] === old[same]) same += 1;
  while (container.childNodes.length > same) container.lastChild.remove();
  container.append(...sources.slice(same).map((source) => block(source, 0)));
  container.blockSources = sources;
}
