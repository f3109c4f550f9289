// The server: requests, its errors, and server-sent events.
import {apiKey} from './store.js';

export class ApiError extends Error {
  constructor(status, error, retryAfter) {
    super(error.message || `The server answered ${status}.`);
    this.status = status;
    this.param = error.param ?? '';
    this.code = error.code ?? '';
    this.retryAfter = retryAfter;
  }

  // What a person should read: the server's own words, then where and what.
  details() {
    const parts = [];
    if (this.param) parts.push(`field ${this.param}`);
    if (this.code) parts.push(String(this.code));
    if (this.status) parts.push(`HTTP ${this.status}`);
    if (this.retryAfter) parts.push(`try again in ${this.retryAfter} s`);
    return parts.join(' · ');
  }
}

// Told when a request did not reach the server, or its reply broke off.
let lost = () => {};
export function onLost(tell) { lost = tell; }

// Asked for a key when the server wants one: resolves to true when there is a new one.
let askForKey = async () => false;
export function onKeyWanted(ask) { askForKey = ask; }

async function errorOf(response) {
  let error = {};
  try {
    const body = await response.json();
    error = typeof body.error === 'object' && body.error ? body.error : {message: body.error ?? body.message};
  } catch { /* no JSON: the status has to do */ }
  return new ApiError(response.status, error, response.headers.get('Retry-After'));
}

async function send(path, options) {
  const headers = {...options.headers};
  const key = apiKey.get();
  if (key) headers.Authorization = `Bearer ${key}`;
  let response;
  try {
    response = await fetch(path, {...options, headers, cache: 'no-store'});
  } catch (error) {
    if (error.name === 'AbortError') throw error;
    lost();
    throw new ApiError(0, {message: 'The server cannot be reached.'});
  }
  return response;
}

async function request(path, {ask = true, ...options} = {}) {
  let response = await send(path, options);
  while (response.status === 401 && ask) {
    const error = await errorOf(response);
    if (!await askForKey(apiKey.get() ? error.message : '')) throw error;
    response = await send(path, options);
  }
  if (!response.ok) throw await errorOf(response);
  return response;
}

export async function getJson(path, options) {
  return (await request(path, options)).json();
}

// "ok", or why not, in a word, within `most` milliseconds; never throws.
export async function health(most) {
  try {
    const response = await send('health', {signal: AbortSignal.timeout(most)});
    if (response.ok) return 'ok';
    const body = await response.json().catch(() => ({}));
    return typeof body.status === 'string' ? body.status : `HTTP ${response.status}`;
  } catch {
    return 'unreachable';
  }
}

// The data of server-sent events, as they come. Lines end in CR, LF or both, wherever chunks are cut.
export async function* eventData(stream) {
  const reader = stream.pipeThrough(new TextDecoderStream()).getReader();
  let text = '';
  let data = [];
  try {
    while (true) {
      const {value, done} = await reader.read();
      text += value ?? '';
      if (done) text += '\n\n';
      while (true) {
        const at = text.search(/[\r\n]/);
        if (at < 0) break;
        if (text[at] === '\r' && at + 1 === text.length && !done) break;  // an LF may follow
        const line = text.slice(0, at);
        text = text.slice(at + (text[at] === '\r' && text[at + 1] === '\n' ? 2 : 1));
        if (line === '') {
          if (data.length) yield data.join('\n');
          data = [];
        } else if (line.startsWith('data:')) {
          data.push(line.slice(line[5] === ' ' ? 6 : 5));
        }
      }
      if (done) return;
    }
  } finally {
    reader.cancel().catch(() => {});
  }
}

// The chunks of a streamed completion. An error that comes in the stream is thrown.
// `conversation`: its id, by which a proxy before several servers finds the one that knows its beginning.
export async function* complete(path, body, conversation, signal) {
  const response = await request(path, {
    method: 'POST',
    headers: {'Content-Type': 'application/json', 'X-Conversation-Id': conversation},
    body: JSON.stringify({...body, stream: true, stream_options: {include_usage: true}}),
    signal,
  });
  try {
    for await (const data of eventData(response.body)) {
      if (data === '[DONE]') return;
      const chunk = JSON.parse(data);
      if (chunk.error) throw new ApiError(0, chunk.error);
      yield chunk;
    }
  } catch (error) {
    if (!(error instanceof TypeError)) throw error;  // else the network's
  }
  lost();
  throw new ApiError(0, {message: 'The reply broke off: the connection to the server was lost.'});
}
