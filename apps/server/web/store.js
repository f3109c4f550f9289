// What this browser keeps: settings and conversations in localStorage, the API key in
// sessionStorage. A full or forbidden storage is told, and the page goes on without it.

const SETTINGS = 'ringkeep.settings';
const CONVERSATIONS = 'ringkeep.conversations';
const KEY = 'ringkeep.key';

export const store = {onproblem: () => {}};

function read(key, fallback) {
  try {
    const value = JSON.parse(localStorage.getItem(key));
    return value ?? fallback;
  } catch {
    return fallback;
  }
}

function write(key, value) {
  try {
    localStorage.setItem(key, JSON.stringify(value));
    store.onproblem('');
  } catch {
    store.onproblem('This browser has no more room for conversations: delete some to keep new ones.');
  }
}

export const apiKey = {
  get() {
    try { return sessionStorage.getItem(KEY) ?? ''; } catch { return this.memory ?? ''; }
  },
  set(key) {
    this.memory = key;
    try { sessionStorage.setItem(KEY, key); } catch { /* kept in memory */ }
  },
};

const savedSettings = read(SETTINGS, {});
export const settings = savedSettings && typeof savedSettings === 'object' && !Array.isArray(savedSettings)
  ? savedSettings : {};
export function saveSettings() { write(SETTINGS, settings); }

function isConversation(value) {
  return value && typeof value.id === 'string' && Array.isArray(value.messages) &&
    value.messages.every((message) => message && typeof message.role === 'string' &&
      typeof message.content === 'string');
}

const savedConversations = read(CONVERSATIONS, []);
export const conversations = Array.isArray(savedConversations) ? savedConversations.filter(isConversation) : [];

let timer = 0;
export function saveConversations(now = false) {
  const save = () => {
    timer = 0;
    write(CONVERSATIONS, conversations.filter((conversation) => conversation.messages.length > 0));
  };
  if (now) {
    clearTimeout(timer);
    save();
  } else if (!timer) {
    timer = setTimeout(save, 1000);
  }
}
addEventListener('pagehide', () => { if (timer) saveConversations(true); });

export function newConversation() {
  const empty = conversations.find((conversation) => conversation.messages.length === 0);
  if (empty) return empty;
  const conversation = {id: `${Date.now().toString(36)}${Math.random().toString(36).slice(2, 8)}`,
    created: Date.now(), messages: []};
  conversations.unshift(conversation);
  return conversation;
}

export function removeConversation(conversation) {
  const index = conversations.indexOf(conversation);
  if (index >= 0) conversations.splice(index, 1);
  saveConversations(true);
}

export function titleOf(conversation) {
  const first = conversation.messages.find((message) => message.role === 'user');
  const title = (first?.content ?? '').trim().split('\n')[0];
  return title ? (title.length > 60 ? `${title.slice(0, 59)}…` : title) : 'New conversation';
}
