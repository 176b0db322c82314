import { isPlatformError } from '#core/base/errors.ts';
import { type Json, parseJsonValue } from '#core/base/json.ts';
import { givesFilesToModel } from '#core/execution/calls/prepare.ts';
import type { CallInput } from '#core/execution/input/call-input.ts';
import { splitCredentials } from '#core/execution/input/members.ts';
import { inputWithFiles } from '#core/execution/input/multipart-input.ts';
import { forPrompt } from '#core/execution/input/prompt-input.ts';
import { inputFromText } from '#core/execution/input/text-input.ts';
import type { AgentVersion } from '#core/manifest/version.ts';
import { A2aError, refuse } from './errors.ts';
import type { SentMessage, SentPart } from './requests.ts';

type Members = { readonly [member: string]: Json };

/** What a message says: its texts, its data and its files. */
export interface Said {
  readonly text: string;
  readonly data: readonly Json[];
  readonly files: readonly { readonly name: string; readonly contentType: string; readonly content: Uint8Array }[];
}

/** Throws InvalidParams for a part that is none, and ContentTypeNotSupported for one that only has an address. */
export function readParts(parts: SentMessage['parts']): Said {
  const texts: string[] = [];
  const data: Json[] = [];
  const files: Said['files'][number][] = [];
  for (const [index, part] of parts.entries()) {
    const place = `message.parts.${index}`;
    const kinds = [part.text != null, part.raw != null, part.url != null, part.data !== undefined].filter(Boolean);
    if (kinds.length !== 1) refuse(place, 'must have one of "text", "data", "raw" and "url".');
    if (part.text != null) texts.push(part.text);
    else if (part.data !== undefined) data.push(part.data as Json);
    else files.push(fileOf(part, place, files.length + 1));
  }
  return { text: texts.join('\n'), data, files };
}

function fileOf({ raw, url, mediaType, filename }: SentPart, place: string, number: number): Said['files'][number] {
  if (raw == null) {
    throw new A2aError(
      'ContentTypeNotSupported',
      `${place}.url: the platform fetches no addresses of messages. Send the file itself as "raw". (${String(url).length} characters)`,
    );
  }
  if (!/^[\w+/-]*={0,2}$/.test(raw)) refuse(`${place}.raw`, 'must be the content of the file in base64.');
  return {
    name: filename || `file-${number}`,
    contentType: mediaType || 'application/octet-stream',
    content: Buffer.from(raw, 'base64'),
  };
}

/**
 * Returns the input that a message stands for (`docs/interface/a2a.md#input`). Throws InvalidParams if it is not clear which
 * member of the input a text fills.
 */
export function inputOf(agent: AgentVersion, { text, data, files }: Said): CallInput {
  const members = Object.assign({}, ...data.map(objectOf), ...(text === '' ? [] : [fromText(agent, text, data)]));
  const { rest, llmCredentials } = splitCredentials(members, 'llm_credentials');
  const credentials = llmCredentials && { llmCredentials };
  if (files.length === 0) return { document: rest, uploads: [], isMultipart: false, ...credentials };
  const given = { ...inputWithFiles(files, Object.keys(rest).length === 0 ? undefined : rest), ...credentials };
  return givesFilesToModel(agent, given) ? forPrompt(given) : given;
}

const isObject = (value: Json | undefined): value is Members =>
  typeof value === 'object' && value !== null && !Array.isArray(value);

function objectOf(value: Json, index: number): Members {
  return isObject(value)
    ? value
    : refuse('message.parts', `data ${index + 1} must be a JSON object: members of the input.`);
}

/** A text that is a JSON object is the input, if it cannot be a member of it. */
function fromText(agent: AgentVersion, text: string, data: readonly Json[]): Members {
  try {
    return inputFromText(agent, text);
  } catch (error) {
    if (!isPlatformError(error)) throw error;
    const value = data.length === 0 ? parseJsonValue(text) : undefined;
    if (isObject(value)) return value;
    return refuse(
      'message.parts',
      `${error.message.replace(/^body\.text: /, '')} Send these members as a part "data".`,
    );
  }
}
