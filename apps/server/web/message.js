// One message on the page: its text, reasoning, tool calls, figures and buttons.
import {copyText, el, formatCount, iconButton} from './dom.js';
import {render} from './markdown.js';

function pretty(json) {
  try {
    return JSON.stringify(JSON.parse(json), null, 2);
  } catch {
    return json;  // cut short, or no JSON: as it came
  }
}

// Tokens that came almost at once tell nothing of the speed at which they were made.
const SHORTEST = 0.1;  // seconds

function figures(stats) {
  if (!stats) return [];
  const parts = [];
  const add = (label, text) => parts.push(el('span', {}, el('span', {class: 'fine-label'}, `${label} `), text));
  if (stats.tokens > 1 && stats.seconds >= SHORTEST) add('speed', `${((stats.tokens - 1) / stats.seconds).toFixed(1)} tok/s`);
  if (stats.ttft >= 0) add('first token', stats.ttft < 10 ? `${stats.ttft.toFixed(2)} s` : `${stats.ttft.toFixed(0)} s`);
  if (stats.prompt >= 0) add('prompt', `${formatCount(stats.prompt)} tok`);
  if (stats.prompt >= 0) add('cached', `${formatCount(stats.cached ?? 0)} tok`);
  if (stats.tokens > 0) add('reply', `${formatCount(stats.tokens)} tok`);
  return parts;
}

const FINISH = {length: 'Cut at the token limit', full: 'Cut at the end of the context', stopped: 'Stopped'};

// What to do next where the context is full, or ''.
export function advice(message) {
  if (message.finish !== 'full' && message.error?.code !== 'context_length_exceeded') return '';
  return 'The context is full: begin a new conversation, or shorten the message. A lower Max tokens in the settings leaves ' +
    'room for more turns. A server started with a larger --ctx holds more; with --max-kv-size it drops old text and goes on.';
}

export class MessageView {
  // `actions`: {regenerate, edit(text), result(calls)}; `plain`: text that is continued, no markdown.
  constructor(message, actions, plain) {
    this.message = message;
    this.actions = actions;
    this.plain = plain;
    this.name = message.role === 'user' ? 'You' : message.role === 'tool' ? 'Tool result' : 'Reply';
    this.thinking = el('details', {class: 'reasoning', hidden: true}, el('summary', {}, 'Reasoning'), el('div', {class: 'reasoning-text'}));
    this.body = el('div', {class: plain ? 'text plain-text' : 'text'});
    this.calls = el('div', {class: 'calls'});
    this.error = el('div', {class: 'error', role: 'alert', hidden: true});
    this.advice = el('p', {class: 'note', hidden: true});
    this.foot = el('div', {class: 'figures'});
    this.buttons = el('div', {class: 'message-buttons'});
    this.node = el('li', {class: `message ${message.role}`},
      el('h3', {class: plain ? 'hidden' : 'role'}, this.name), this.thinking, this.body, this.calls, this.error, this.advice,
      el('div', {class: 'message-foot'}, this.foot, this.buttons));
    this.streaming = false;
    this.update();
  }

  setStreaming(streaming) {
    this.streaming = streaming;
    this.node.classList.toggle('streaming', streaming);
    this.update();
  }

  update() {
    const {message} = this;
    this.thinking.hidden = !message.reasoning;
    if (message.reasoning) {
      this.thinking.lastChild.textContent = message.reasoning;
      const now = this.streaming && !message.content && !message.tool_calls?.length;
      this.thinking.firstChild.textContent = now ? 'Reasoning…' : 'Reasoning';
    }
    if (message.role === 'user' || message.role === 'tool' || this.plain) this.body.textContent = message.content;
    else render(this.body, message.content);
    this.body.hidden = !message.content && !this.streaming;
    this.updateCalls();
    this.updateError();
    this.advice.textContent = advice(message);
    this.advice.hidden = !this.advice.textContent;
    const note = FINISH[message.finish];
    this.foot.replaceChildren(...(note ? [el('span', {class: 'finish'}, note)] : []), ...figures(message.stats));
    if (this.streaming) this.buttons.replaceChildren();
    else if (!this.buttons.firstChild) this.buttons.append(...this.makeButtons());
  }

  updateError() {
    const {error} = this.message;
    const text = error ? `${error.message}\u0000${error.details}` : '';
    if (this.error.shown === text) return;
    this.error.shown = text;
    this.error.hidden = !error;
    this.error.replaceChildren(...(error ? [el('strong', {}, error.message), error.details ? el('span', {class: 'fine'}, error.details) : ''] : []));
  }

  updateCalls() {
    const calls = this.message.tool_calls ?? [];
    calls.forEach((call, i) => {
      let box = this.calls.children[i];
      if (!box) {
        box = el('figure', {class: 'code call'}, el('figcaption', {}, el('span', {}, 'Tool call: ', el('strong'))),
          el('pre', {tabindex: '0'}, el('code')));
        this.calls.append(box);
      }
      box.querySelector('strong').textContent = call.function.name;
      box.querySelector('code').textContent = this.streaming ? call.function.arguments : pretty(call.function.arguments);
    });
  }

  makeButtons() {
    const {message, actions} = this;
    const buttons = [];
    if (message.content) {
      const copy = iconButton('copy', `Copy ${this.name === 'You' ? 'message' : 'reply'}`, () => copyText(message.content, copy, 'Text'));
      buttons.push(copy);
    }
    if (actions.edit && message.role === 'user') buttons.push(iconButton('edit', 'Edit message', () => this.edit()));
    if (actions.regenerate && message.role === 'assistant') buttons.push(iconButton('redo', 'Regenerate reply', () => actions.regenerate()));
    return buttons;
  }

  edit() {
    const area = el('textarea', {class: 'edit-area', 'aria-label': 'Edit message', rows: '3'});
    area.value = this.message.content;
    const done = (save) => {
      form.replaceWith(this.body);
      this.buttons.hidden = false;
      this.buttons.querySelector('[aria-label="Edit message"]')?.focus();
      if (save && area.value.trim() !== '') this.actions.edit(area.value);
    };
    const form = el('form', {class: 'edit-form', onsubmit: (event) => { event.preventDefault(); done(true); },
      onkeydown: (event) => {
        if (event.key === 'Escape') { event.stopPropagation(); done(false); }
        if (event.key === 'Enter' && !event.shiftKey && !event.isComposing) { event.preventDefault(); done(true); }
      }}, area, el('div', {class: 'dialog-foot'},
        el('button', {type: 'button', class: 'plain', onclick: () => done(false)}, 'Cancel'),
        el('button', {type: 'submit', class: 'send'}, 'Send again')));
    this.buttons.hidden = true;
    this.body.replaceWith(form);
    area.focus();
    area.setSelectionRange(area.value.length, area.value.length);
  }
}

// A form for the results of the calls of a reply.
export function resultForm(calls, send) {
  const areas = calls.map((call, i) => {
    const id = `result-${call.id}-${i}`;
    return [el('label', {for: id}, `Result of ${call.function.name}`), el('textarea', {id, rows: '2', class: 'mono'})];
  });
  return el('form', {class: 'result-form', onsubmit: (event) => {
    event.preventDefault();
    send(areas.map(([, area]) => area.value));
  }}, areas, el('div', {class: 'dialog-foot'}, el('button', {type: 'submit', class: 'send'}, 'Send results')));
}
