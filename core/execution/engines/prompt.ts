import { PlatformError } from '#core/base/errors.ts';
import type { Json } from '#core/base/json.ts';
import { markdownCodeBlock } from '#core/base/markdown-code-block.ts';
import { PLACEHOLDER, placeholdersOf } from '#core/manifest/parsing/placeholders.ts';
import type { LlmMessage } from '#core/ports/llm.ts';
import type { PromptFiles } from '../input/prompt-input.ts';
import type { Skill } from '../skills/skills.ts';

/** A prompt agent's only message. */
export type PromptMessage = Extract<LlmMessage, { role: 'user' }>;

type Input = { readonly [member: string]: Json };

/** Throws MISSING_INPUT_FIELDS, naming every placeholder of the prompt that has no value in the input. */
export function checkPlaceholders(prompt: string, input: Input): void {
  const missing = placeholdersOf(prompt).filter((name) => textFor(input, name) === '');
  if (missing.length === 0) return;
  throw new PlatformError(
    'MISSING_INPUT_FIELDS',
    `The agent's prompt needs a value for ${missing.map((name) => `"${name}"`).join(', ')}, which the input does not have.`,
  );
}

/**
 * Builds the message to a prompt agent's model (`docs/interface/prompts.md#message`). `shared` is the same in each
 * call:
 * skills, each followed by a rule. `text` has the author's prompt with the input's values in place of its
 * `{{placeholders}}`; the entire input, unless it is empty, as a JSON block that no input can terminate; and each text
 * file
 * that is not in the input, as another such block. Placeholders inside values are not replaced.
 *
 * Throws MISSING_INPUT_FIELDS.
 */
export function renderPrompt(
  skills: readonly Skill[],
  prompt: string,
  input: Input,
  { files, texts }: PromptFiles = NO_FILES,
): PromptMessage {
  checkPlaceholders(prompt, input);
  const filled = prompt.replace(PLACEHOLDER, (_, name: string) => textFor(input, name));
  const shown =
    Object.keys(input).length === 0 ? [] : [`Input:\n${markdownCodeBlock('json', JSON.stringify(input, null, 2))}`];
  return {
    role: 'user',
    ...(skills.length > 0 && { shared: skills.flatMap(({ text }) => [text.trim(), '---']).join('\n\n') }),
    ...(files.length > 0 && { files }),
    text: [filled, ...shown, ...texts.map(fileBlock)].join('\n\n'),
  };
}

const NO_FILES: PromptFiles = { files: [], texts: [] };

/** JSON escapes line ends and quotes in the name. */
const fileBlock = ({ name, text }: PromptFiles['texts'][number]): string =>
  `File ${JSON.stringify(name)}:\n${markdownCodeBlock('', text)}`;

/** Returns the text of a member; empty if the input does not have it. */
function textFor(input: Input, name: string): string {
  const value = Object.hasOwn(input, name) ? input[name] : undefined;
  if (value === undefined || value === null) return '';
  return typeof value === 'string' ? value : JSON.stringify(value);
}
