// The conversation that is open: sending, streaming, stopping, going back.
import {ApiError, complete} from './api.js';
import {announce, byId, confirmThat, el} from './dom.js';
import {advice, MessageView, resultForm} from './message.js';
import {requestFields, systemPrompt} from './settings.js';
import {conversations, draft, lastOpen, newConversation, saveConversation, titleOf} from './store.js';

export class Chat {
  // `changed()`: the list of conversations looks different now.
  constructor(changed) {
    this.changed = changed;
    this.model = '';
    this.text = false;  // the model has no chat template: text is continued
    this.abort = null;
    this.log = byId('log');
    this.list = byId('messages');
    this.area = byId('composer-text');
    this.follow = true;
    this.open(conversations.find((conversation) => conversation.id === lastOpen.get()) ?? newConversation());
    this.area.value = draft.get();
    this.grow();

    byId('composer').addEventListener('submit', (event) => {
      event.preventDefault();
      this.submit();
    });
    this.area.addEventListener('keydown', (event) => {
      if (event.key === 'Enter' && !event.shiftKey && !event.isComposing) {
        event.preventDefault();
        this.submit();
      }
    });
    this.area.addEventListener('input', () => {
      draft.set(this.area.value);
      this.grow();
    });
    byId('stop').addEventListener('click', () => this.stop());
    byId('clear').addEventListener('click', () => this.clear());
    document.addEventListener('keydown', (event) => {
      if (event.key === 'Escape' && this.abort && !document.querySelector('dialog[open]')) this.stop();
    });
    this.log.addEventListener('scroll', () => {
      this.follow = this.log.scrollHeight - this.log.scrollTop - this.log.clientHeight < 60;
    });
  }

  // `context`: most tokens of a prompt and its reply.
  setModel(name, text, context) {
    this.model = name;
    this.text = text;
    this.context = context;
    const note = byId('mode-note');
    note.hidden = !text;
    note.textContent = text ? 'This model has no chat template: it does not answer, it goes on with your text. ' +
      'What you write and what it adds become one text.' : '';
    byId('composer-label').textContent = text ? 'Text to go on with' : 'Message';
    byId('composer-text').placeholder = text ? 'Write the beginning of a text' : 'Write a message';
    byId('empty-text').textContent = text ? 'How does the text begin?' : 'What would you like to know?';
    byId('send').textContent = text ? 'Continue' : 'Send';
    this.show();
  }

  open(conversation) {
    this.stop();
    this.conversation = conversation;
    lastOpen.set(conversation.id);
    this.show();
  }

  show() {
    const {messages} = this.conversation;
    this.shown = messages;
    this.views = messages.map((message) => this.view(message));
    this.list.replaceChildren(...this.views.map((view) => view.node));
    this.showForms();
    byId('chat-title').textContent = titleOf(this.conversation);
    this.follow = true;
    this.scroll();
  }

  // Another tab may have gone on with the conversation.
  refresh() {
    lastOpen.set(this.conversation.id);
    if (this.conversation.messages === this.shown) return;
    const focused = this.list.contains(document.activeElement);
    this.show();
    if (focused) this.area.focus();
  }

  showForms() {
    const {messages} = this.conversation;
    byId('empty').hidden = messages.length > 0;
    byId('clear').disabled = messages.length === 0;
    this.list.querySelector('.result-form')?.remove();
    const last = messages.at(-1);
    if (!this.abort && last?.role === 'assistant' && last.tool_calls?.length)
      this.views.at(-1).node.append(resultForm(last.tool_calls, (results) => this.sendResults(results)));
    this.list.classList.toggle('one-text', this.text);
  }

  view(message) {
    return new MessageView(message, {
      regenerate: () => this.regenerate(message),
      edit: (text) => this.edit(message, text),
    }, this.text);
  }

  add(message) {
    this.conversation.messages.push(message);
    const view = this.view(message);
    this.views.push(view);
    this.list.append(view.node);
    return view;
  }

  // Drops `message` and what follows.
  cut(message) {
    const at = this.conversation.messages.indexOf(message);
    this.conversation.messages.length = at;
    for (const view of this.views.splice(at)) view.node.remove();
  }

  submit() {
    const text = this.text ? this.area.value : this.area.value.trim();
    const go = this.text && this.conversation.messages.length > 0;  // an empty box: just go on
    if (this.abort || (text === '' && !go)) return;
    this.area.value = '';
    draft.set('');
    this.grow();
    if (text !== '') this.add({role: 'user', content: text});
    this.reply();
  }

  regenerate(message) {
    if (this.abort) return;
    this.cut(message);
    this.reply();
    this.area.focus();
  }

  edit(message, text) {
    if (this.abort) return;
    this.cut(message);
    this.add({role: 'user', content: text});
    this.reply();
    this.area.focus();
  }

  sendResults(results) {
    if (this.abort) return;
    const {tool_calls: calls} = this.conversation.messages.at(-1);
    calls.forEach((call, i) => this.add({role: 'tool', content: results[i], tool_call_id: call.id}));
    this.reply();
    this.area.focus();
  }

  async clear() {
    if (!await confirmThat('Delete all messages of this conversation?')) return;
    this.stop();
    this.conversation.messages.length = 0;
    this.show();
    this.saved(this.conversation);
    this.area.focus();
  }

  stop() { this.abort?.abort(); }

  saved(conversation, grows = false) {
    saveConversation(conversation, grows);
    this.changed();
  }

  grow() {
    this.area.style.height = 'auto';
    this.area.style.height = `${Math.min(this.area.scrollHeight + 2, innerHeight * 0.4)}px`;
  }

  scroll() {
    if (this.follow) this.log.scrollTop = this.log.scrollHeight;
  }

  body() {
    const past = this.conversation.messages.filter((message) => !message.error || message.content);
    if (this.text)
      return ['v1/completions', {model: this.model, prompt: past.map((message) => message.content).join(''), ...requestFields(false)}];
    const messages = past.map(({role, content, tool_calls: calls, tool_call_id: id}) => ({role,
      content: calls?.length && !content ? null : content,
      ...(calls?.length ? {tool_calls: calls} : {}), ...(id ? {tool_call_id: id} : {})}));
    const system = systemPrompt();
    if (system.trim() !== '') messages.unshift({role: 'system', content: system});
    return ['v1/chat/completions', {model: this.model, messages, ...requestFields(true)}];
  }

  busy(on) {
    if (!on && document.activeElement === byId('stop')) this.area.focus();  // the button goes
    byId('send').hidden = on;
    byId('stop').hidden = !on;
    byId('esc-hint').hidden = !on;
    this.log.setAttribute('aria-busy', String(on));
  }

  async reply() {
    const conversation = this.conversation;
    const [path, body] = this.body();
    const message = {role: 'assistant', content: ''};
    const abort = new AbortController();
    this.abort = abort;
    this.busy(true);
    const view = this.add(message);
    view.setStreaming(true);
    this.showForms();
    byId('chat-title').textContent = titleOf(conversation);
    this.saved(conversation, true);
    this.follow = true;
    this.scroll();
    announce('The reply begins.', true);
    const stream = new Stream(message, view, () => this.scroll());
    try {
      for await (const chunk of complete(path, body, conversation.id, abort.signal)) stream.take(chunk);
    } catch (error) {
      if (error.name === 'AbortError') {
        message.finish = 'stopped';
      } else {
        message.error = {message: error.message, details: error instanceof ApiError ? error.details() : '', code: error.code};
        if (error.code === 'no_chat_template') this.noTemplate?.();
      }
    }
    if (message.finish === 'length' && stream.usage?.total_tokens >= this.context) message.finish = 'full';
    stream.end();
    this.abort = null;
    this.busy(false);
    // A reply that was stopped before its first word is no part of the conversation.
    const nothing = message.finish === 'stopped' && !message.content && !message.reasoning && !message.tool_calls;
    if (this.conversation === conversation) {
      if (nothing) this.cut(message);
      view.setStreaming(false);
      this.scroll();
    } else if (nothing) {
      conversation.messages.pop();
    }
    this.showForms();
    this.saved(conversation);
  }
}

// Chunks of a reply on their way into a message. The page is drawn at most once a frame.
class Stream {
  constructor(message, view, drawn) {
    this.message = message;
    this.view = view;
    this.drawn = drawn;
    this.started = performance.now();
    this.first = 0;
    this.chunks = 0;
    this.said = 0;  // characters of the content that were announced
    this.frame = 0;
  }

  take(chunk) {
    const {message} = this;
    if (chunk.usage) this.usage = chunk.usage;
    const choice = chunk.choices?.[0];
    if (!choice) return;
    const delta = choice.delta ?? {content: choice.text};
    const reasoning = delta.reasoning_content ?? delta.reasoning;
    if (delta.content || reasoning || delta.tool_calls?.length) {
      this.first ||= performance.now();
      this.last = performance.now();
      this.chunks += 1;
    }
    if (delta.content) message.content += delta.content;
    if (reasoning) message.reasoning = (message.reasoning ?? '') + reasoning;
    for (const piece of delta.tool_calls ?? []) this.call(piece);
    if (choice.finish_reason) message.finish = choice.finish_reason;
    this.say(/[.!?:\n]\s/g);
    this.frame ||= requestAnimationFrame(() => this.draw());
  }

  call(piece) {
    const calls = (this.message.tool_calls ??= []);
    const call = (calls[piece.index ?? 0] ??= {id: '', type: 'function', function: {name: '', arguments: ''}});
    if (piece.id) call.id = piece.id;
    call.function.name += piece.function?.name ?? '';
    call.function.arguments += piece.function?.arguments ?? '';
  }

  // Whole sentences only.
  say(ends) {
    const fresh = this.message.content.slice(this.said);
    let end = 0;
    for (const match of fresh.matchAll(ends)) end = match.index + 1;
    if (!end) return;
    announce(fresh.slice(0, end));
    this.said += end;
  }

  draw() {
    this.frame = 0;
    this.figures();
    this.view.update();
    this.drawn();
  }

  figures() {
    const tokens = this.usage?.completion_tokens ?? this.chunks;
    if (!this.first) return;
    this.message.stats = {ttft: (this.first - this.started) / 1000, seconds: (this.last - this.first) / 1000, tokens,
      prompt: this.usage?.prompt_tokens ?? -1, cached: this.usage?.prompt_tokens_details?.cached_tokens ?? 0};
  }

  end() {
    cancelAnimationFrame(this.frame);
    this.figures();
    this.say(/$/g);
    const {message} = this;
    announce(message.error ? '' : message.finish === 'stopped' ? 'The reply was stopped.' : 'The reply is complete.');
    announce(advice(message));
    for (const call of message.tool_calls ?? []) announce(`The model calls the tool ${call.function.name}.`);
  }
}
