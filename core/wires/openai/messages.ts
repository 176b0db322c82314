import type { Json } from '#core/base/json.ts';
import { refuse } from './errors.ts';

/** A file of a message, as a multipart call has it. */
export interface WireFile {
  readonly name: string;
  readonly contentType: string;
  readonly content: Uint8Array;
}

/** What was said before the message that is answered. */
export interface EarlierTurn {
  readonly text: string;
  readonly answer: string;
}

/** The messages of a request: the last ones of the user are what is answered. */
export interface Conversation {
  /** Those of the system and the developer, which an agent gets as a note of its caller. */
  readonly instructions: string;
  /** The oldest first. */
  readonly earlier: readonly EarlierTurn[];
  readonly text: string;
  readonly files: readonly WireFile[];
}

interface Said {
  readonly role: 'user' | 'assistant';
  readonly text: string;
  readonly files: readonly WireFile[];
}

type Item = { readonly [member: string]: Json };

const MAX_MESSAGES = 5000;
const MAX_FILES = 100;
/** What stands for the user where the assistant spoke first. */
const SILENT_USER = '(The assistant begins.)';

/** Reads the `messages` of a chat completion. Throws INVALID_INPUT. */
export function readMessages(messages: Json | undefined): Conversation {
  if (!Array.isArray(messages) || messages.length === 0)
    refuse('messages', 'must be an array with at least one message.');
  return conversationOf(messages as Json[], 'messages', []);
}

/** Reads the `input` and `instructions` of a response. Throws INVALID_INPUT. */
export function readInput(input: Json | undefined, instructions: Json | undefined): Conversation {
  if (instructions != null && typeof instructions !== 'string') refuse('instructions', 'must be a text.');
  const system = instructions ? [instructions as string] : [];
  if (typeof input === 'string') return conversationOf([{ role: 'user', content: input }], 'input', system);
  if (!Array.isArray(input) || input.length === 0)
    refuse('input', 'must be a text or an array with at least one item.');
  return conversationOf(input as Json[], 'input', system);
}

function conversationOf(items: readonly Json[], param: string, instructions: string[]): Conversation {
  if (items.length > MAX_MESSAGES) refuse(param, `has ${items.length} messages, and may have ${MAX_MESSAGES}.`);
  const said: Said[] = [];
  for (const [index, item] of items.entries()) {
    const place = `${param}[${index}]`;
    if (!isItem(item)) refuse(place, 'must be an object.');
    const { role, type = 'message', content } = item as Item;
    // What a client's own tools were asked and answered, and the thoughts of models, are not the agent's.
    if (type !== 'message' || role === 'tool' || role === 'function') continue;
    const { text, files } = readContent(content, `${place}.content`, role);
    if (role === 'system' || role === 'developer') {
      if (text !== '') instructions.push(text);
    } else if (role === 'user' || role === 'assistant') said.push({ role, text, files });
    else refuse(`${place}.role`, 'must be system, developer, user, assistant or tool.');
  }
  const begin = said.findLastIndex(({ role }) => role === 'assistant') + 1;
  const last = said.slice(begin);
  if (last.length === 0) refuse(param, 'must end with a message of the user: it is what the agent answers.');
  const files = last.flatMap((message) => message.files);
  if (files.length > MAX_FILES) refuse(param, `has ${files.length} files, and may have ${MAX_FILES}.`);
  return {
    instructions: instructions.join('\n\n'),
    earlier: turnsOf(said.slice(0, begin)),
    text: joined(last),
    files,
  };
}

/** Files of earlier messages are named only: the agent has seen them. */
function turnsOf(said: readonly Said[]): EarlierTurn[] {
  const turns: EarlierTurn[] = [];
  let asked: Said[] = [];
  for (const message of said) {
    const last = turns.at(-1);
    if (message.role === 'user') asked.push(message);
    else if (asked.length > 0 || last === undefined) {
      const names = asked.flatMap(({ files }) => files.map(({ name }) => `[File: ${name}]`));
      turns.push({ text: [joined(asked), ...names].filter(Boolean).join('\n') || SILENT_USER, answer: message.text });
      asked = [];
    } else turns[turns.length - 1] = { ...last, answer: [last.answer, message.text].filter(Boolean).join('\n\n') };
  }
  return turns.filter(({ answer }) => answer !== '');
}

const joined = (messages: readonly Said[]): string =>
  messages
    .map(({ text }) => text)
    .filter(Boolean)
    .join('\n\n');

const isItem = (value: Json | undefined): value is Item =>
  typeof value === 'object' && value !== null && !Array.isArray(value);

function readContent(content: Json | undefined, place: string, role: Json | undefined): Pick<Said, 'text' | 'files'> {
  if (typeof content === 'string') return { text: content, files: [] };
  // An assistant that only called tools said nothing.
  if (content == null && role === 'assistant') return { text: '', files: [] };
  if (!Array.isArray(content)) refuse(place, 'must be a text or an array of parts.');
  const texts: string[] = [];
  const files: WireFile[] = [];
  for (const [index, part] of (content as Json[]).entries()) {
    const at = `${place}[${index}]`;
    if (!isItem(part)) refuse(at, 'must be an object.');
    const { type, text } = part as Item;
    if (type === 'text' || type === 'input_text' || type === 'output_text') {
      if (typeof text !== 'string') refuse(`${at}.text`, 'must be a text.');
      texts.push(text as string);
    } else if (type === 'refusal') texts.push(String((part as Item).refusal ?? ''));
    else files.push(readFile(part as Item, at, files.length + 1));
  }
  return { text: texts.filter(Boolean).join('\n'), files };
}

/** Media type -> extension of the name of a file that has none. */
const EXTENSIONS: { readonly [type: string]: string } = {
  'image/png': '.png',
  'image/jpeg': '.jpg',
  'image/gif': '.gif',
  'image/webp': '.webp',
  'application/pdf': '.pdf',
  'audio/wav': '.wav',
  'audio/mpeg': '.mp3',
  'text/plain': '.txt',
};

function readFile(part: Item, place: string, number: number): WireFile {
  const { type } = part;
  if (type === 'image_url' || type === 'input_image') {
    const url = isItem(part.image_url) ? part.image_url.url : part.image_url;
    return fileOf(url, `${place}.image_url`, { number, kind: 'image' });
  }
  if (type === 'file' || type === 'input_file') {
    const { file_data: data, filename } = isItem(part.file) ? part.file : part;
    const name = typeof filename === 'string' && filename !== '' ? filename.slice(0, 1000) : undefined;
    return fileOf(data, `${place}.file_data`, { number, kind: 'file', name, mayBeBare: true });
  }
  if (type === 'input_audio' && isItem(part.input_audio)) {
    const { data, format } = part.input_audio;
    const mediaType = format === 'mp3' ? 'audio/mpeg' : 'audio/wav';
    const url = typeof data === 'string' ? `data:${mediaType};base64,${data}` : undefined;
    return fileOf(url, `${place}.input_audio.data`, { number, kind: 'audio' });
  }
  return refuse(
    `${place}.type`,
    'must be text, image_url, file or input_audio, or input_text, input_image or input_file.',
  );
}

function fileOf(
  data: Json | undefined,
  place: string,
  {
    number,
    kind,
    name,
    mayBeBare = false,
  }: {
    readonly number: number;
    readonly kind: string;
    readonly name?: string | undefined;
    readonly mayBeBare?: boolean;
  },
): WireFile {
  if (typeof data !== 'string') {
    return refuse(place, 'is missing: send the file itself, as a data: URL. There are no stored files here.');
  }
  if (/^https?:/i.test(data)) {
    return refuse(place, 'must be a data: URL with the file itself: the platform fetches no addresses of messages.');
  }
  const comma = data.startsWith('data:') ? data.indexOf(',') : -1;
  if (comma < 0 && !mayBeBare) return refuse(place, 'must be a data: URL, "data:<media type>;base64,<content>".');
  const [mediaType = '', ...parameters] = comma < 0 ? ['', 'base64'] : data.slice(5, comma).split(';');
  const text = data.slice(comma + 1);
  if (parameters.at(-1) !== 'base64' || !/^[\w+/-]*={0,2}$/.test(text)) {
    return refuse(place, 'must have its content in base64: "data:<media type>;base64,<content>".');
  }
  const contentType = mediaType || 'application/octet-stream';
  return {
    name: name ?? `${kind}-${number}${EXTENSIONS[contentType] ?? ''}`,
    contentType,
    content: Buffer.from(text, 'base64'),
  };
}
