// The settings dialog: fields with their limits. Done keeps them if all are valid; they are sent only
// where they hold something.
import {getJson} from './api.js';
import {byId, el, formatCount} from './dom.js';
import {saveSettings, settings} from './store.js';

const number = (min, max, step) => ({kind: 'number', min, max, step});
const whole = (min, max) => ({kind: 'number', min, max, step: 1});

const FIELDS = [
  {name: 'system', label: 'System prompt', kind: 'text', rows: 3, hint: 'Sent before the first message. Not used where a text is continued.'},
  {name: 'temperature', label: 'Temperature', ...number(0, 100, 'any'), hint: '0: always the most likely token'},
  {name: 'top_p', label: 'Top p', ...number(0, 1, 'any'), hint: '1: off'},
  {name: 'top_k', label: 'Top k', ...whole(-1, 2147483647), hint: '0: off'},
  {name: 'min_p', label: 'Min p', ...number(0, 1, 'any'), hint: '0: off'},
  {name: 'max_tokens', label: 'Max tokens', ...whole(1, 2147483647), hint: 'Empty: as the server is set'},
  {name: 'seed', label: 'Seed', ...whole(-1, Number.MAX_SAFE_INTEGER), hint: 'Empty: a new one each time'},
  {name: 'repetition_penalty', label: 'Repetition penalty', ...number(0.001, 100, 'any'), hint: '1: off'},
  {name: 'presence_penalty', label: 'Presence penalty', ...number(-2, 2, 'any'), hint: '0: off'},
  {name: 'frequency_penalty', label: 'Frequency penalty', ...number(-2, 2, 'any'), hint: '0: off'},
  {name: 'stop', label: 'Stop strings', kind: 'text', rows: 2, hint: 'One a line; \\n stands for a line break'},
  {name: 'tools', label: 'Tools', kind: 'text', rows: 4, code: true, hint: 'An array of functions as in OpenAI\'s API; you write their results'},
  {name: 'theme', label: 'Colours', kind: 'choice', options: [['', 'As the system'], ['light', 'Light'], ['dark', 'Dark']]},
];

export function applyTheme(theme = settings.theme) {
  if (theme === 'light' || theme === 'dark') document.documentElement.dataset.theme = theme;
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

const inputOf = (field) => byId(`setting-${field.name}`);

let continuesText = () => false;

// What the server takes where a field is empty. A page that cannot learn it shows nothing.
async function showDefaults() {
  let properties;
  try {
    properties = (await getJson('openapi.json')).components.schemas[continuesText() ? 'CompletionRequest' : 'ChatRequest'].properties;
  } catch {
    return;
  }
  for (const field of FIELDS) {
    const value = properties[field.name]?.default;
    const given = value !== undefined && !(field.max !== undefined && value < 0);  // -1: the hint says it
    if (field.kind === 'number' && given) inputOf(field).placeholder = String(value);
  }
  const most = properties.max_tokens.default;
  byId('setting-max_tokens-hint').textContent = most < 0 ? 'Empty: to the end of the context' : `Empty: ${formatCount(most)}, as the server is set`;
}

const textOf = (name) => (typeof settings[name] === 'string' ? settings[name] : '');

const numberOf = (text) => (Number.isFinite(Number(text)) ? Number(text) : text);

function jsonOf(text) {
  try {
    return JSON.parse(text);
  } catch {
    return text;
  }
}

// Fields of a request. What an earlier version kept may be invalid: it goes as it is, and the server says what is wrong.
export function requestFields(chat) {
  const body = {};
  for (const field of FIELDS) {
    const text = textOf(field.name);
    if (text.trim() === '') continue;
    if (field.kind === 'number') body[field.name] = numberOf(text);
    else if (field.name === 'stop') body.stop = text.split('\n').filter((line) => line !== '').map((line) => line.replaceAll('\\n', '\n'));
    else if (field.name === 'tools' && chat) body.tools = jsonOf(text);
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
    byId('settings-problem').textContent = '';
    if (field.name === 'theme') applyTheme(input.value);
  };
  input.addEventListener('input', check);
  check();
  return el('div', {class: `field ${field.kind === 'number' ? 'short' : ''}`},
    el('label', {for: id}, field.label), input,
    field.hint ? el('p', {class: 'fine', id: `${id}-hint`}, field.hint) : null, wrong);
}

function show() {
  byId('settings-fields').replaceChildren(...FIELDS.map(control));
  showDefaults();
}

function keep() {
  const bad = FIELDS.find((field) => problem(field, inputOf(field).value));
  if (bad) {
    byId('settings-problem').textContent = `${bad.label}: ${problem(bad, inputOf(bad).value)}`;
    inputOf(bad).focus();
    return;
  }
  for (const name of Object.keys(settings)) delete settings[name];
  for (const field of FIELDS) {
    const {value} = inputOf(field);
    if (value.trim() !== '') settings[field.name] = value;
  }
  saveSettings();
  byId('settings').close();
}

// `text()`: whether the model continues text.
export function initSettings(text) {
  continuesText = text;
  applyTheme();
  byId('open-settings').addEventListener('click', () => {
    show();
    byId('settings').showModal();
  });
  byId('settings').addEventListener('close', () => applyTheme());  // what was not kept is over
  byId('settings-form').addEventListener('submit', (event) => {
    event.preventDefault();
    keep();
  });
  byId('settings-reset').addEventListener('click', () => {
    for (const field of FIELDS) {
      inputOf(field).value = '';
      inputOf(field).dispatchEvent(new Event('input'));
    }
  });
}
