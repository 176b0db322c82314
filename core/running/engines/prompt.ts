import { PlatformError } from '#core/base/errors.ts';
import type { Json } from '#core/base/json.ts';
import { parseJsonValue } from '#core/base/json.ts';
import type { Skill } from '../skills/skills.ts';

type Input = { readonly [member: string]: Json };

const PLACEHOLDER = /\{\{\s*([\w-]+)\s*\}\}/g;

/** Throws MISSING_INPUT_FIELDS, which names every placeholder of the prompt that the input has no value for. */
export function checkPlaceholders(prompt: string, input: Input): void {
  const names = new Set([...prompt.matchAll(PLACEHOLDER)].map(([, name]) => name!));
  const missing = [...names].filter((name) => textFor(input, name) === '');
  if (missing.length === 0) return;
  throw new PlatformError(
    'MISSING_INPUT_FIELDS',
    `The agent's prompt needs a value for ${missing.map((name) => `"${name}"`).join(', ')}, which the input does not have.`,
  );
}

/**
 * The one message that a prompt agent's model gets (`contract.md` 11.4): skills, each followed by a rule; the author's
 * prompt with the input's values in place of its `{{placeholders}}`; the whole input as JSON, unless it is empty.
 * Values are put in as they are: what looks like a placeholder inside one stays as it is.
 *
 * Throws MISSING_INPUT_FIELDS.
 */
export function renderPrompt(skills: readonly Skill[], prompt: string, input: Input): string {
  checkPlaceholders(prompt, input);
  const filled = prompt.replace(PLACEHOLDER, (_, name: string) => textFor(input, name));
  return [
    ...skills.flatMap(({ text }) => [text.trim(), '---']),
    filled,
    ...(Object.keys(input).length === 0 ? [] : [`Input:\n\`\`\`json\n${JSON.stringify(input, null, 2)}\n\`\`\``]),
  ].join('\n\n');
}

/** Empty when there is none. */
function textFor(input: Input, name: string): string {
  const value = Object.hasOwn(input, name) ? input[name] : undefined;
  if (value === undefined || value === null) return '';
  return typeof value === 'string' ? value : JSON.stringify(value);
}

const FENCED = /^```(?:json)?[ \t]*\r?\n([\s\S]*?)\r?\n?```$/i;
const FENCED_BLOCKS = /^```json[ \t]*\r?\n([\s\S]*?)^```[ \t]*$/gim;

/**
 * What a model's reply says: a JSON value, also in a fence of its own; with `expectsJson`, also in the only JSON block
 * among other text. Any other reply is `{"result": text}` (`contract.md` 11.4).
 */
export function parseReply(reply: string, expectsJson: boolean): Json {
  const text = reply.trim();
  const blocks = expectsJson ? [...text.matchAll(FENCED_BLOCKS)] : [];
  const candidates = [text, FENCED.exec(text)?.[1], blocks.length === 1 ? blocks[0]![1] : undefined];
  for (const candidate of candidates) {
    const value = candidate === undefined ? undefined : parseJsonValue(candidate);
    if (value !== undefined) return value;
  }
  return { result: reply };
}
