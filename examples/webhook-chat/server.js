import { randomUUID } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { createServer } from 'node:http';
import { join } from 'node:path';
import { storage } from 'agent-platform-sdk';
import { answerTo, cut, readWebhook } from './bot.js';
import { Room } from './room.js';
import { Sessions } from './session.js';
import { problemOf } from './signature.js';
import { TextSocket } from './websocket.js';

const { PORT = '3000', CHAT_TITLE = 'Webhook chat', CHAT_PASSWORD, CHAT_WEBHOOK_SECRET, CHAT_KEY } = process.env;
const MAX_BODY_BYTES = 1024 * 1024;
const MIN_PASSWORD = 12;

/** An invalid setting aborts the start: the reason is in the log of the service, and in its timeline. */
function stop(problem) {
  console.error(`CRITICAL ${problem}`);
  process.exit(1);
}
if (!CHAT_KEY) stop('CHAT_KEY is missing: a service key of this agent, see README.md.');
if (!CHAT_WEBHOOK_SECRET) stop('CHAT_WEBHOOK_SECRET is missing: the secret that senders sign with.');
if ((CHAT_PASSWORD ?? '').length < MIN_PASSWORD) {
  stop(`CHAT_PASSWORD is too short: the page is public, so it needs ${MIN_PASSWORD} characters or more.`);
}
// The SDK reads this variable. The secret has a different name, so that each service can have its own key.
process.env.PLATFORM_API_KEY = CHAT_KEY;

const sessions = new Sessions(CHAT_PASSWORD);
/** @type {Set<TextSocket>} */
const sockets = new Set();
const room = new Room((message) => {
  console.log(`INFO ${message.kind} ${message.from}: ${cut(message.text.split('\n')[0], 120)}`);
  for (const socket of sockets) socket.send(JSON.stringify({ type: 'message', message }));
}, storage);

const file = (name, type) => [readFileSync(join(import.meta.dirname, 'page', name), 'utf8'), `${type}; charset=utf-8`];
const FILES = {
  '/page.css': file('page.css', 'text/css'),
  '/page.js': file('page.js', 'text/javascript'),
};
const PAGES = { chat: file('chat.html', 'text/html'), login: file('login.html', 'text/html') };

const HEADERS = {
  // The page may run only its own script, and connect only to its own origin.
  'content-security-policy':
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src data:; form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
  'referrer-policy': 'no-referrer',
  'x-content-type-options': 'nosniff',
  'cache-control': 'no-store',
};

const asHtml = (text) => text.replace(/[&<>"]/g, (character) => `&#${character.charCodeAt(0)};`);

function send(response, status, [content, type], more = {}) {
  response.writeHead(status, { ...HEADERS, 'content-type': type, ...more }).end(content);
}
const sendJson = (response, status, body) => send(response, status, [`${JSON.stringify(body)}\n`, 'application/json']);
/** Sends a page with its placeholders, such as `{{title}}`, filled in. */
function sendPage(response, status, name, words) {
  const [content, type] = PAGES[name];
  const filled = content.replace(/\{\{(\w+)\}\}/g, (_, word) => asHtml({ title: CHAT_TITLE, ...words }[word] ?? ''));
  send(response, status, [filled, type]);
}
const redirect = (response, cookie) =>
  response.writeHead(303, { ...HEADERS, location: '/', 'set-cookie': cookie }).end();

async function bodyOf(request) {
  const parts = [];
  let bytes = 0;
  for await (const part of request) {
    bytes += part.length;
    if (bytes > MAX_BODY_BYTES) throw Object.assign(new Error('the body has more than 1 MB'), { status: 413 });
    parts.push(part);
  }
  return Buffer.concat(parts);
}

/** Stores a message and the bot's answer to it, and returns the answer. */
async function take(message) {
  const reply = answerTo(message.text, room.messages);
  const messages = [{ ...message, at: new Date().toISOString() }];
  if (reply !== undefined) {
    messages.push({ id: `${message.id}-reply`, at: new Date().toISOString(), kind: 'bot', from: 'bot', text: reply });
  }
  await room.add(...messages);
  return reply;
}

async function takeWebhook(request, response) {
  const { headers } = request;
  const body = await bodyOf(request);
  const problem = problemOf(headers, body, CHAT_WEBHOOK_SECRET);
  if (problem !== undefined) {
    console.log(`WARNING a webhook was refused: ${problem}`);
    return sendJson(response, 401, { error: problem });
  }
  let event;
  try {
    event = JSON.parse(body.toString());
  } catch {
    return sendJson(response, 400, { error: 'the body is not JSON' });
  }
  const id = cut(headers['webhook-id'] ?? headers['x-github-delivery'] ?? randomUUID(), 100);
  // Senders retry if the response was too late.
  if (room.has(id)) return sendJson(response, 200, { id, duplicate: true });
  const reply = await take({ id, kind: 'webhook', ...readWebhook(headers, event) });
  sendJson(response, 200, { id, ...(reply !== undefined && { reply }) });
}

async function logIn(request, response) {
  const form = new URLSearchParams((await bodyOf(request)).toString());
  const name = cut((form.get('name') ?? '').trim(), 40) || 'somebody';
  if (sessions.isPassword(form.get('password') ?? ''))
    return redirect(response, sessions.begin(name, isSecure(request)));
  console.log('WARNING a wrong password');
  sendPage(response, 401, 'login', { name, problem: 'This password is wrong.' });
}

const isSecure = ({ headers }) => headers['x-forwarded-proto'] === 'https';

const server = createServer(async (request, response) => {
  const [pathname] = request.url.split('?');
  const isRead = request.method === 'GET' || request.method === 'HEAD';
  try {
    if (pathname === '/webhook' && request.method === 'POST') await takeWebhook(request, response);
    else if (pathname === '/login' && request.method === 'POST') await logIn(request, response);
    else if (pathname === '/logout' && request.method === 'POST') redirect(response, sessions.end(isSecure(request)));
    else if (isRead && Object.hasOwn(FILES, pathname)) send(response, 200, FILES[pathname]);
    else if (isRead && pathname === '/') {
      const name = sessions.nameOf(request);
      sendPage(response, 200, name === undefined ? 'login' : 'chat', { name });
    } else if (isRead && pathname === '/socket') {
      // Tells a page why it cannot connect.
      const isKnown = sessions.nameOf(request) !== undefined;
      sendJson(response, isKnown ? 426 : 401, { error: isKnown ? 'this is a WebSocket' : 'sign in first' });
    } else sendJson(response, 404, { error: `there is no ${request.method} ${pathname}` });
  } catch (error) {
    const status = error.status ?? 503;
    console.error(`ERROR ${request.method} ${pathname}: ${error.message}`);
    // Senders retry after a 503.
    if (!response.headersSent) sendJson(response, status, { error: error.message });
    else response.destroy();
  }
});

server.on('upgrade', async (request, socket, head) => {
  const refuse = (status) => socket.end(`HTTP/1.1 ${status}\r\nConnection: close\r\nContent-Length: 0\r\n\r\n`);
  socket.on('error', () => socket.destroy());
  const name = sessions.nameOf(request);
  const { origin, host } = request.headers;
  // Otherwise a page of another site could open the connection with the cookies of this one.
  const isOwn = origin === `http://${host}` || origin === `https://${host}`;
  if (origin !== undefined && !isOwn) return refuse('403 Forbidden');
  if (name === undefined) return refuse('401 Unauthorized');
  // Another instance may have stored messages in the meantime.
  await room.refresh().catch((error) => console.error(`ERROR messages not read: ${error.message}`));
  const accepted = TextSocket.accept(request, socket, head, {
    text: (text, from) => void speak(name, text, from),
    close: (closed) => sockets.delete(closed),
  });
  if (accepted === undefined) return;
  accepted.send(JSON.stringify({ type: 'history', messages: room.messages }));
  sockets.add(accepted);
});

/** Handles a message from a page: `{"text": "..."}`. */
async function speak(from, json, socket) {
  const fail = (problem) => socket.send(JSON.stringify({ type: 'problem', problem }));
  let text;
  try {
    ({ text } = JSON.parse(json));
  } catch {
    return fail('This was not JSON.');
  }
  if (typeof text !== 'string' || text.trim() === '') return fail('Write something first.');
  try {
    await take({ id: randomUUID(), kind: 'person', from, text: cut(text.trim(), 2000) });
  } catch (error) {
    console.error(`ERROR a message was not kept: ${error.message}`);
    fail('The message could not be kept. Send it again in a moment.');
  }
}

// The platform sends it to stop a service. Pages reconnect to the next instance.
process.once('SIGTERM', () => {
  server.close(() => process.exit(0));
  for (const socket of sockets) socket.close(1001);
  server.closeIdleConnections();
});

await room.refresh().catch((error) => stop(`The messages cannot be read: ${error.message}`));
server.listen(Number(PORT), () => console.log(`INFO listens on port ${PORT}, ${room.messages.length} messages kept`));
