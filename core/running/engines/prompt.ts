import { PlatformError } from '#core/base/errors.ts';
import type { Json } from '#core/base/json.ts';
import type { Skill } from '../skills/skills.ts';

type Input = { readonly [member: string]: Json };

const PLACEHOLDER = /\{\{\s*([\w-]+)\s*\}\}/g;

/** Throws MISSING_INPUT_FIELDS, naming every placeholder of the prompt without a value in the input. */
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
 * The message to a prompt agent's model (`docs/interface/prompts.md#message`): skills, each followed by a rule; the
 * author's prompt with the input's values in place of its `{{placeholders}}`; the whole input as JSON, unless it is
 * empty. Placeholders inside values are not replaced.
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

/** Empty if the input has no such member. */
function textFor(input: Input, name: string): string {
  const value = Object.hasOwn(input, name) ? input[name] : undefined;
  if (value === undefined || value === null) return '';
  return typeof value === 'string' ? value : JSON.stringify(value);
}
