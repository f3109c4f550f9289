// What this browser keeps: settings and conversations in localStorage; the API key, the draft and
// which conversation is open in sessionStorage. A full or forbidden storage is told, and the page goes on without it.

const SETTINGS = 'ringkeep.settings';
const CONVERSATION = 'ringkeep.conversation.';  // and its id: a key for each, so that tabs do not write over each other's
const EARLIER = 'ringkeep.conversations';       // one list, of earlier versions

// `onchange()`: another tab changed what is kept.
export const store = {onproblem: () => {}, onchange: () => {}};

function parse(text) {
  try {
    return JSON.parse(text);
  } catch {
    return null;
  }
}

function read(key) {
  try {
    return parse(localStorage.getItem(key));
  } catch {
    return null;
  }
}

function write(key, text) {
  try {
    localStorage.setItem(key, text);
    return true;
  } catch {
    return false;
  }
}

function remove(key) {
  try { localStorage.removeItem(key); } catch { /* nothing is kept */ }
}

function tell(written) {
  store.onproblem(written ? '' : 'This browser has no more room for conversations: delete some to keep new ones.');
}

// Text that is this tab's alone, until it is closed.
function ofTab(key) {
  let memory = '';
  return {
    get() {
      try { return sessionStorage.getItem(key) ?? ''; } catch { return memory; }
    },
    set(text) {
      memory = text;
      try { sessionStorage.setItem(key, text); } catch { /* kept in memory */ }
    },
  };
}

export const apiKey = ofTab('ringkeep.key');
export const lastOpen = ofTab('ringkeep.open');  // the id of a conversation
export const draft = ofTab('ringkeep.draft');

// ---- settings ----

export const settings = {};

function readSettings() {
  const saved = read(SETTINGS);
  for (const name of Object.keys(settings)) delete settings[name];
  if (saved && typeof saved === 'object' && !Array.isArray(saved)) Object.assign(settings, saved);
}

export function saveSettings() { tell(write(SETTINGS, JSON.stringify(settings))); }

// ---- conversations ----

export const conversations = [];  // the newest first
const kept = new Map();           // what storage held of each id when it was last looked at
const unsaved = new Map();        // conversation: whether its reply still comes
let timer = 0;

function isConversation(value) {
  return value && typeof value.id === 'string' && Array.isArray(value.messages) &&
    value.messages.every((message) => message && typeof message.role === 'string' &&
      typeof message.content === 'string');
}

const newId = () => `${Date.now().toString(36)}${Math.random().toString(36).slice(2, 8)}`;

function insert(conversation) {
  conversations.push(conversation);
  conversations.sort((a, b) => b.created - a.created);
}

function drop(conversation) {
  const index = conversations.indexOf(conversation);
  if (index >= 0) conversations.splice(index, 1);
  unsaved.delete(conversation);
}

function stored() {
  try {
    return new Map(Object.keys(localStorage).filter((key) => key.startsWith(CONVERSATION))
      .map((key) => [key.slice(CONVERSATION.length), localStorage.getItem(key)]));
  } catch {
    return new Map();
  }
}

// Takes over what storage holds: at the start all, later what other tabs wrote and deleted.
function readConversations() {
  const found = stored();
  let changed = false;
  const withId = (id) => conversations.find((conversation) => conversation.id === id);
  for (const id of [...kept.keys()].filter((one) => !found.has(one))) {
    kept.delete(id);
    drop(withId(id));
    changed = true;
  }
  for (const [id, text] of found) {
    if (kept.get(id) === text) continue;
    const theirs = parse(text);
    if (!isConversation(theirs) || theirs.id !== id) continue;
    kept.set(id, text);
    const ours = withId(id);
    if (ours && !unsaved.has(ours)) {
      ours.messages = theirs.messages;
    } else {
      if (ours) ours.id = newId();  // both tabs went on with it: now there are two
      insert(theirs);
    }
    changed = true;
  }
  if (changed) store.onchange();
}

function save() {
  clearTimeout(timer);
  timer = 0;
  readConversations();
  let written = true;
  for (const [conversation, grows] of unsaved) {
    const {id, messages} = conversation;
    const text = JSON.stringify(conversation);
    if (messages.length === 0) {
      remove(CONVERSATION + id);
      kept.delete(id);
    } else if (write(CONVERSATION + id, text)) {
      kept.set(id, text);
    } else {
      written = false;
      continue;
    }
    if (!grows) unsaved.delete(conversation);
  }
  tell(written);
}

// `grows`: its reply still comes; until that is saved whole, no other tab's words are put in its place.
export function saveConversation(conversation, grows = false) {
  if (!conversations.includes(conversation)) return;  // deleted while its reply came
  unsaved.set(conversation, grows);
  timer ||= setTimeout(save, 1000);
}

export function newConversation() {
  const empty = conversations.find((conversation) => conversation.messages.length === 0);
  if (empty) return empty;
  const conversation = {id: newId(), created: Date.now(), messages: []};
  insert(conversation);
  return conversation;
}

export function removeConversation(conversation) {
  drop(conversation);
  kept.delete(conversation.id);
  remove(CONVERSATION + conversation.id);
  save();  // what had no room may have some now
}

export function titleOf(conversation) {
  const first = conversation.messages.find((message) => message.role === 'user');
  const title = (first?.content ?? '').trim().split('\n')[0];
  return title ? (title.length > 60 ? `${title.slice(0, 59)}…` : title) : 'New conversation';
}

// ---- start ----

readSettings();
readConversations();
const earlier = read(EARLIER);
if (Array.isArray(earlier)) {
  remove(EARLIER);  // first: there may be no room for both
  for (const conversation of earlier.filter(isConversation)) {
    insert(conversation);
    unsaved.set(conversation, false);
  }
  save();
}
addEventListener('storage', (event) => {
  if (event.key === null || event.key === SETTINGS) {
    readSettings();
    store.onchange();
  }
  readConversations();
});
addEventListener('pageshow', (event) => { if (event.persisted) readConversations(); });  // no events came while it was away
addEventListener('pagehide', () => { if (unsaved.size) save(); });
