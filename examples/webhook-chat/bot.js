const MAX_CHARACTERS = 2000;
const HELP = ['/help: this list', '/stats: who wrote how much', '/find WORD: the newest messages with a word'].join(
  '\n',
);

/**
 * Reads the sender and text of a webhook. Add your own senders here.
 *
 * @param {Record<string, string | undefined>} headers
 * @param {any} event the parsed body
 * @returns {{ from: string, text: string }}
 */
export function readWebhook(headers, event) {
  const { from, text } = ofPlatform(event) ?? ofGithub(headers['x-github-event'], event) ?? ofProgram(event);
  return { from: cut(from, 80), text: cut(text, MAX_CHARACTERS) };
}

/**
 * Reads a webhook of any program: `{"from": "deploys", "text": "Version 12 is live."}`. Bodies without text are shown
 * as they are.
 */
function ofProgram(event) {
  const { from, text } = Object(event);
  const sender = typeof from === 'string' && from.trim() !== '' ? from.trim() : 'webhook';
  return { from: sender, text: typeof text === 'string' && text !== '' ? text : JSON.stringify(event, null, 2) };
}

/** Reads an alert of this platform about a schedule or service. */
function ofPlatform(event) {
  if (event?.event === 'service.crash_loop') {
    const state = event.auto_paused ? 'is paused' : 'keeps crashing';
    const failures = `${event.consecutive_restart_failures} failed starts in a row`;
    return {
      from: 'platform',
      text: `The service ${event.service_name} ${state}: ${failures}. ${event.last_error ?? ''}`,
    };
  }
  if (event?.event === 'schedule.failure_streak') {
    const state = event.auto_disabled ? 'is disabled' : 'keeps failing';
    const failures = `${event.consecutive_failures} failures in a row`;
    return {
      from: 'platform',
      text: `The schedule of ${event.agent_name} ${state}: ${failures}. ${event.last_error ?? ''}`,
    };
  }
  return undefined;
}

function ofGithub(kind, event) {
  if (kind === undefined) return undefined;
  const who = event?.sender?.login ?? 'somebody';
  const where = event?.repository?.full_name ?? 'a repository';
  const thing = event?.pull_request ?? event?.issue ?? event?.release;
  const title = thing ? `: ${thing.title ?? thing.name ?? ''}\n${thing.html_url ?? ''}` : '';
  const number = thing?.number === undefined ? '' : ` #${thing.number}`;
  const text =
    kind === 'push'
      ? `${who} pushed to ${String(event?.ref).replace('refs/heads/', '')} of ${where}\n${(event?.commits ?? []).map(({ message }) => `- ${String(message).split('\n')[0]}`).join('\n')}`
      : `${who}: ${kind.replaceAll('_', ' ')}${number} ${event?.action ?? ''} in ${where}${title}`;
  return { from: 'GitHub', text: text.trim() };
}

/**
 * Returns the bot's answer to a message; `undefined` if it has none. To make the bot smarter, call a model or one of
 * your agents here.
 *
 * @param {string} text
 * @param {readonly import('./room.js').Message[]} messages
 */
export function answerTo(text, messages) {
  const [, command, rest = ''] = /^\/(\w+)\s*([\s\S]*)$/.exec(text.trim()) ?? [];
  switch (command) {
    case undefined:
      return undefined;
    case 'help':
      return HELP;
    case 'stats':
      return stats(messages);
    case 'find':
      return cut(find(rest.trim(), messages), MAX_CHARACTERS);
    default:
      return `There is no command /${command}.\n${HELP}`;
  }
}

function stats(messages) {
  const counts = new Map();
  for (const { from } of messages) counts.set(from, (counts.get(from) ?? 0) + 1);
  const lines = [...counts].sort(([, one], [, other]) => other - one).map(([from, count]) => `${from}: ${count}`);
  return lines.length > 0 ? lines.join('\n') : 'Nobody has written yet.';
}

function find(word, messages) {
  if (word === '') return 'Name a word: /find WORD';
  const found = messages.filter(({ text, kind }) => kind !== 'bot' && text.toLowerCase().includes(word.toLowerCase()));
  if (found.length === 0) return `No message has "${word}".`;
  return found
    .slice(-5)
    .map(
      ({ at, from, text }) => `${at.slice(0, 16).replace('T', ' ')} ${from}: ${cut(text.replaceAll(/\s+/g, ' '), 200)}`,
    )
    .join('\n');
}

export const cut = (text, length) => (text.length > length ? `${text.slice(0, length - 1)}…` : text);
