import { PlatformError } from '#core/base/errors.ts';
import type { Json } from '#core/base/json.ts';
import { placeholdersOf } from '#core/manifest/parsing/placeholders.ts';
import { refOf } from '#core/manifest/references.ts';
import type { AgentVersion } from '#core/manifest/version.ts';
import { membersOf, textMemberOf } from './text-member.ts';

/**
 * Returns the input that a user's text stands for: the only required string of the agent's input schema, else the member
 * with a usual name; without a schema, the only placeholder of the prompt. Throws INVALID_INPUT that names the schema's members, if the text could be none of them.
 */
export function inputFromText(agent: AgentVersion, text: string): { [member: string]: Json } {
  const { input_schema: schema, prompt } = agent.definition;
  const placeholders = placeholdersOf(prompt ?? '');
  const name = textMemberOf(schema, placeholders);
  if (name !== undefined) return { [name]: text };
  const names = schema === null ? placeholders : membersOf(schema).map((member) => member.name);
  const list = names.slice(0, 20).map((each) => `"${each}"`);
  const has = names.length === 0 ? 'has no members' : `has ${list.join(', ')}`;
  const shape = schema === null ? 'prompt' : 'input_schema';
  throw new PlatformError(
    'INVALID_INPUT',
    `body.text: it is not clear which member of the input of ${refOf(agent)} a text fills: its ${shape} ${has}.`,
    { hint: 'Send "input", an object with these members, instead of "text".' },
  );
}
