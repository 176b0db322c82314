const find = (id) => document.getElementById(id);
const [list, empty, state, newer, form, text, problem] = [
  ...['messages', 'empty', 'state', 'newer', 'composer', 'text', 'problem'].map(find),
];
const ownName = document.querySelector('.who').textContent;

const KINDS = { person: '', webhook: 'webhook', bot: 'automatic' };
const time = new Intl.DateTimeFormat(undefined, { timeStyle: 'short' });
const day = new Intl.DateTimeFormat(undefined, { dateStyle: 'full' });
/** Maximum reconnection delay: it starts at 1 s and doubles with each attempt. */
const MAX_WAIT_MS = 15_000;

find('address').textContent = new URL('webhook', location.href).href;

// --- messages ---------------------------------------------------------------

let shown = new Set();
let lastDay;

/** Creates an element. Message texts are only inserted as text, never as HTML. */
function element(name, className, ...content) {
  const made = document.createElement(name);
  if (className) made.className = className;
  made.append(...content);
  return made;
}

/** Returns a text with its web addresses as links. */
function withLinks(source) {
  return source.split(/(https?:\/\/[^\s<>"']+[^\s<>"'.,:;!?)\]])/).map((part, index) => {
    if (index % 2 === 0) return part;
    const link = element('a', '', part);
    Object.assign(link, { href: part, target: '_blank', rel: 'noopener noreferrer' });
    return link;
  });
}

function show(message) {
  if (shown.has(message.id)) return;
  shown.add(message.id);
  const at = new Date(message.at);
  const isAtEnd = list.scrollHeight - list.scrollTop - list.clientHeight < 80;
  if (day.format(at) !== lastDay) {
    lastDay = day.format(at);
    list.append(element('h2', '', lastDay));
  }
  const when = element('time', '', time.format(at));
  when.dateTime = message.at;
  when.title = at.toLocaleString();
  const picture = element('span', 'picture', [...message.from.trim().toUpperCase()][0] ?? '?');
  picture.ariaHidden = 'true';
  const about = element('div', 'about', element('strong', '', message.from));
  if (KINDS[message.kind]) about.append(element('span', 'kind', KINDS[message.kind]));
  about.append(when);
  const isOwn = message.kind === 'person' && message.from === ownName;
  const item = element('article', `${message.kind}${isOwn ? ' own' : ''}`, picture, about);
  item.append(element('div', 'text', ...withLinks(message.text)));
  list.append(item);
  empty.hidden = true;
  // Does not scroll while the user reads older messages.
  if (isAtEnd || isOwn) toEnd();
  else newer.hidden = false;
}

function toEnd() {
  list.scrollTop = list.scrollHeight;
  newer.hidden = true;
}

newer.addEventListener('click', () => {
  toEnd();
  list.focus();
});
list.addEventListener('scroll', () => {
  if (list.scrollHeight - list.scrollTop - list.clientHeight < 8) newer.hidden = true;
});

// --- connection -------------------------------------------------------------

let socket;
let waitMs = 1000;

function become(name, label) {
  if (state.textContent === label) return;
  state.className = name;
  state.textContent = label;
}

function connect() {
  socket = new WebSocket(new URL('socket', location.href.replace(/^http/, 'ws')));
  let wasOpen = false;
  socket.addEventListener('open', () => {
    wasOpen = true;
    waitMs = 1000;
    become('live', 'Live');
  });
  socket.addEventListener('message', ({ data }) => {
    const event = JSON.parse(data);
    if (event.type === 'message') show(event.message);
    else if (event.type === 'problem') problem.textContent = event.problem;
    else if (event.type === 'history') {
      // Screen readers announce only later messages, not this list.
      list.ariaBusy = 'true';
      list.replaceChildren();
      shown = new Set();
      lastDay = undefined;
      empty.hidden = event.messages.length > 0;
      event.messages.forEach(show);
      list.ariaBusy = 'false';
      toEnd();
    }
  });
  socket.addEventListener('close', () => {
    become('lost', 'Not connected, trying again…');
    // A new password has ended the session.
    if (!wasOpen)
      fetch('socket').then(
        ({ status }) => status === 401 && location.reload(),
        () => {},
      );
    setTimeout(connect, waitMs);
    waitMs = Math.min(2 * waitMs, MAX_WAIT_MS);
  });
}
connect();

// --- writing ----------------------------------------------------------------

form.addEventListener('submit', (event) => {
  event.preventDefault();
  problem.textContent = '';
  if (text.value.trim() === '') return void text.focus();
  if (socket.readyState !== WebSocket.OPEN) {
    // The text stays in the input field.
    problem.textContent = 'There is no connection at the moment. Send it again once there is.';
    return;
  }
  socket.send(JSON.stringify({ text: text.value }));
  text.value = '';
  grow();
  text.focus();
});

text.addEventListener('keydown', (event) => {
  // While an IME composes a word, Enter confirms the word.
  if (event.key !== 'Enter' || event.shiftKey || event.isComposing) return;
  event.preventDefault();
  form.requestSubmit();
});

function grow() {
  text.rows = Math.min(6, text.value.split('\n').length);
}
text.addEventListener('input', grow);
text.focus();
