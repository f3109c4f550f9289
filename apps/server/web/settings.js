// The settings dialog: fields with their limits, kept as they are typed, sent only where they hold
// something.
import {getJson} from './api.js';
import {byId, confirmThat, el} from './dom.js';
import {saveSettings, settings} from './store.js';

const number = (min, max, step) => ({kind: 'number', min, max, step});
const whole = (min, max) => ({kind: 'number', min, max, step: 1});

const FIELDS = [
  {name: 'system', label: 'System prompt', kind: 'text', rows: 3, hint: 'Sent before the first message. Not used where a text is continued.'},
  {name: 'temperature', label: 'Temperature', ...number(0, 100, 'any'), hint: '0: always the most likely token'},
  {name: 'top_p', label: 'Top p', ...number(0, 1, 'any'), hint: '1: off'},
  {name: 'top_k', label: 'Top k', ...whole(-1, 2147483647), hint: '0: off'},
  {name: 'min_p', label: 'Min p', ...number(0, 1, 'any'), hint: '0: off'},
  {name: 'max_tokens', label: 'Max tokens', ...whole(1, 2147483647), hint: 'Empty: to the end of the context'},
  {name: 'seed', label: 'Seed', ...whole(-1, Number.MAX_SAFE_INTEGER), hint: 'Empty: a new one each time'},
  {name: 'repetition_penalty', label: 'Repetition penalty', ...number(0.001, 100, 'any'), hint: '1: off'},
  {name: 'presence_penalty', label: 'Presence penalty', ...number(-2, 2, 'any'), hint: '0: off'},
  {name: 'frequency_penalty', label: 'Frequency penalty', ...number(-2, 2, 'any'), hint: '0: off'},
  {name: 'stop', label: 'Stop strings', kind: 'text', rows: 2, hint: 'One a line; \\n stands for a line break'},
  {name: 'tools', label: 'Tools', kind: 'text', rows: 4, code: true, hint: 'An array of functions as in OpenAI\'s API; you write their results'},
  {name: 'theme', label: 'Colours', kind: 'choice', options: [['', 'As the system'], ['light', 'Light'], ['dark', 'Dark']]},
];

export function applyTheme() {
  const theme = settings.theme === 'light' || settings.theme === 'dark' ? settings.theme : '';
  if (theme) document.documentElement.dataset.theme = theme;
  else delete document.documentElement.dataset.theme;
}

// What is wrong with the text of a field, or ''.
function problem(field, text) {
  if (text.trim() === '') return '';
  if (field.kind === 'number') {
    const value = Number(text);
    if (!Number.isFinite(value)) return 'Not a number.';
    if (field.step === 1 && !Number.isInteger(value)) return 'A whole number is wanted.';
    if (value < field.min || value > field.max) return `From ${field.min} to ${field.max}.`;
  }
  if (field.name === 'tools') {
    try {
      const tools = JSON.parse(text);
      if (!Array.isArray(tools) || !tools.every((tool) => tool && typeof tool === 'object')) return 'An array of objects is wanted.';
    } catch (error) {
      return error.message;
    }
  }
  return '';
}

// What the server takes where a field is empty: {name: value}. A page that cannot learn it shows none.
let defaults = null;

async function showDefaults() {
  try {
    defaults ??= Object.fromEntries(Object.entries((await getJson('openapi.json')).components.schemas.ChatRequest.properties)
      .map(([name, property]) => [name, property.default]));
  } catch {
    return;
  }
  for (const field of FIELDS) {
    const value = defaults[field.name];
    const given = value !== undefined && !(field.max !== undefined && value < 0);  // -1: the hint says it
    if (field.kind === 'number' && given) byId(`setting-${field.name}`).placeholder = String(value);
  }
}

const textOf = (name) => (typeof settings[name] === 'string' ? settings[name] : '');

// Fields of a request. A value that is not valid is left out (the dialog says so).
export function requestFields(chat) {
  const body = {};
  for (const field of FIELDS) {
    const text = textOf(field.name);
    if (text.trim() === '' || problem(field, text)) continue;
    if (field.kind === 'number') body[field.name] = Number(text);
    else if (field.name === 'stop') body.stop = text.split('\n').filter((line) => line !== '').map((line) => line.replaceAll('\\n', '\n'));
    else if (field.name === 'tools' && chat) body.tools = JSON.parse(text);
  }
  if (body.tools?.length === 0) delete body.tools;
  return body;
}

export const systemPrompt = () => textOf('system');

function control(field) {
  const id = `setting-${field.name}`;
  const describedBy = field.hint ? `${id}-hint` : undefined;
  let input;
  if (field.kind === 'choice') {
    input = el('select', {id}, field.options.map(([value, label]) => el('option', {value}, label)));
  } else if (field.kind === 'text') {
    input = el('textarea', {id, rows: String(field.rows), spellcheck: 'false', class: field.code ? 'mono' : undefined, 'aria-describedby': `${describedBy} ${id}-problem`});
  } else {
    input = el('input', {id, type: 'text', inputmode: field.min < 0 ? 'text' : 'decimal', autocomplete: 'off', 'aria-describedby': `${describedBy} ${id}-problem`});
  }
  input.value = textOf(field.name);
  const wrong = el('p', {class: 'error small', id: `${id}-problem`, hidden: true});
  const check = () => {
    const text = problem(field, input.value);
    wrong.textContent = text;
    wrong.hidden = !text;
    input.setAttribute('aria-invalid', String(Boolean(text)));
  };
  input.addEventListener('input', () => {
    if (input.value.trim() === '') delete settings[field.name];
    else settings[field.name] = input.value;
    check();
    saveSettings();
    if (field.name === 'theme') applyTheme();
  });
  check();
  return el('div', {class: `field ${field.kind === 'number' ? 'short' : ''}`},
    el('label', {for: id}, field.label), input,
    field.hint ? el('p', {class: 'fine', id: `${id}-hint`}, field.hint) : null, wrong);
}

function build() {
  byId('settings-fields').replaceChildren(...FIELDS.map(control));
}

export function initSettings() {
  applyTheme();
  byId('open-settings').addEventListener('click', () => {
    build();
    showDefaults();
    byId('settings').showModal();
  });
  byId('settings-reset').addEventListener('click', async () => {
    if (!await confirmThat('Empty all settings?', 'Reset')) return;
    for (const key of Object.keys(settings)) delete settings[key];
    saveSettings();
    applyTheme();
    build();
    showDefaults();
  });
}
