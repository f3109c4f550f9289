// Puts the page together: views, dialogs, the model that is served.
import {getJson, health, onKeyWanted, onLost} from './api.js';
import {CacheMap} from './cache.js';
import {Chat} from './chat.js';
import {byId, confirmThat, el, icon, iconButton} from './dom.js';
import {applyTheme, initSettings} from './settings.js';
import {apiKey, conversations, newConversation, removeConversation, store, titleOf} from './store.js';

const HEALTH_MS = 3000;
const LOADING_MS = 1000;

// ---- conversations ----

let chat = null;

function showConversations() {
  const list = byId('conversation-list');
  const focused = list.contains(document.activeElement) ? document.activeElement : null;
  list.replaceChildren(...conversations.filter((one) => one.messages.length > 0 || one === chat.conversation)
    .map((conversation) => {
      const current = conversation === chat.conversation;
      const title = titleOf(conversation);
      return el('li', {class: current ? 'current' : undefined, 'data-id': conversation.id},
        el('button', {type: 'button', class: 'conversation', 'aria-current': current ? 'true' : undefined,
          onclick: () => openConversation(conversation)}, title),
        iconButton('trash', `Delete conversation: ${title}`, () => deleteConversation(conversation)));
    }));
  if (!focused) return;
  const row = [...list.children].find((one) => one.dataset.id === focused.closest('li').dataset.id);
  (row?.querySelector(focused.matches('.conversation') ? '.conversation' : '.icon-button') ?? byId('new-conversation')).focus();
}

function openConversation(conversation) {
  chat.open(conversation);
  showConversations();
  byId('drawer').close();
  location.hash = '#chat';
  byId('composer-text').focus();
}

async function deleteConversation(conversation) {
  if (conversation.messages.length && !await confirmThat(`Delete "${titleOf(conversation)}"?`)) return;
  const open = conversation === chat.conversation;
  if (open) chat.stop();
  removeConversation(conversation);
  if (open) chat.open(conversations[0] ?? newConversation());
  showConversations();
  byId('new-conversation').focus();
}

// On a small screen the list lives in a dialog.
function initDrawer() {
  const drawer = byId('drawer');
  byId('open-drawer').addEventListener('click', () => {
    byId('drawer-body').append(byId('conversations'));
    drawer.showModal();
  });
  drawer.addEventListener('close', () => byId('side').append(byId('conversations')));
  matchMedia('(min-width: 60rem)').addEventListener('change', () => drawer.close());
}

// ---- views ----

function initViews(map) {
  const show = () => {
    const cache = location.hash === '#cache';
    byId('layout').dataset.view = cache ? 'cache' : 'chat';
    byId('view-chat').toggleAttribute('aria-current', !cache);
    byId('view-cache').toggleAttribute('aria-current', cache);
    if (cache) byId('view-cache').setAttribute('aria-current', 'page');
    else byId('view-chat').setAttribute('aria-current', 'page');
    map.wake();
  };
  addEventListener('hashchange', show);
  addEventListener('resize', () => map.wake());
  show();
}

// ---- the key ----

function initKey() {
  const dialog = byId('key-dialog');
  let asked = null;
  onKeyWanted((problem) => {
    asked ??= new Promise((resolve) => {
      byId('key-error').hidden = !problem;
      byId('key-error').textContent = problem;
      byId('key').value = '';
      dialog.returnValue = '';
      dialog.showModal();
      dialog.addEventListener('close', () => {
        asked = null;
        const key = byId('key').value.trim();
        byId('key').value = '';
        if (dialog.returnValue === 'used' && key) apiKey.set(key);
        resolve(dialog.returnValue === 'used' && key !== '');
      }, {once: true});
    });
    return asked;
  });
  byId('key-form').addEventListener('submit', (event) => {
    event.preventDefault();
    dialog.close('used');
  });
}

// ---- the model ----

function setState(text, bad) {
  const state = byId('server-state');
  if (state.textContent !== text) state.textContent = text;
  state.classList.toggle('bad', bad);
}

async function showModels() {
  const {data} = await getJson('v1/models');
  const select = byId('model');
  select.replaceChildren(...data.map((model) => el('option', {value: model.id}, model.id)));
  select.hidden = data.length < 2;
  byId('model-name').hidden = data.length > 1;
  const use = (model) => {
    byId('model-name').textContent = model.id;
    chat.setModel(model.id, model.meta?.chat_template === false, model.max_model_len);
  };
  select.onchange = () => use(data[select.selectedIndex]);
  use(data[0]);
  chat.noTemplate = () => chat.setModel(chat.model, true, chat.context);
}

async function watch() {
  let known = false;
  let wake = () => {};
  onLost(() => wake());  // looks at once
  let refused = null;  // the key that was not good enough: another one is waited for
  while (true) {
    const state = document.hidden ? 'hidden' : await health(HEALTH_MS);
    if (state === 'ok') {
      if (known || refused === null) setState('', false);
      if (!known && refused !== apiKey.get()) {
        refused = null;
        try {
          await showModels();
          known = true;
        } catch (error) {
          setState(error.message, true);
          if (error.status === 401) refused = apiKey.get();
        }
      }
    } else if (state !== 'hidden') {
      setState({loading: 'loading the model…', draining: 'shutting down', unreachable: 'not reachable'}[state] ?? state, state !== 'loading');
    }
    await new Promise((resolve) => {
      wake = resolve;
      setTimeout(resolve, state === 'ok' && known ? HEALTH_MS : LOADING_MS * (state === 'ok' ? 5 : 1));
    });
  }
}

// ---- start ----

store.onproblem = (problem) => {
  byId('storage-note').textContent = problem || 'Kept in this browser only.';
  byId('storage-note').classList.toggle('error', Boolean(problem));
};
byId('open-drawer').append(icon('menu'));
byId('open-settings').append(icon('gear'));
for (const button of document.querySelectorAll('[data-close]')) {
  if (button.classList.contains('icon-button')) button.append(icon('close'));
  button.addEventListener('click', () => button.closest('dialog').close(''));
}
for (const dialog of document.querySelectorAll('dialog')) {
  dialog.addEventListener('click', (event) => {
    if (event.target === dialog && !dialog.querySelector('input, textarea')) dialog.close('no');  // nothing typed is lost
  });
}
initSettings(() => chat.text);
initKey();
initDrawer();
chat = new Chat(showConversations);
store.onchange = () => {
  applyTheme();
  if (conversations.includes(chat.conversation)) chat.refresh();
  else chat.open(newConversation());
  showConversations();
};
byId('new-conversation').addEventListener('click', () => openConversation(newConversation()));
showConversations();
initViews(new CacheMap());
if (matchMedia('(hover: hover)').matches) byId('composer-text').focus();
watch();
