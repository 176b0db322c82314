import { TEXT_INPUT } from '../chat-input.ts';
import { preferNames, scriptEntries } from '../entries.ts';
import type { Framework } from '../framework.ts';
import { nodeProgram } from '../node-program.ts';

const CODE = `const { run } = await import('@openai/agents');

const answer = await run(entry, given.input, { stream: true });
for await (const text of answer.toTextStream()) show(text);
await answer.completed;
const result = { output: answer.finalOutput };
`;

export const openaiAgentsJs: Framework = {
  name: 'openai-agents-js',
  title: 'OpenAI Agents (JavaScript)',
  language: 'javascript',
  packages: ['@openai/agents', '@openai/agents-core'],
  example: 'a module must export it, such as `export const agent = new Agent({ ... })`.',
  entriesIn: (project) =>
    preferNames(
      scriptEntries(project, /\bnew Agent(?:<[^>]*>)?\(|\bAgent\.create\(/, /["']@openai\/agents/),
      'agent',
      'triageAgent',
      'default',
    ),
  adapt: (project, entry) =>
    nodeProgram(project, entry, { ...TEXT_INPUT, title: 'OpenAI Agents', code: CODE, provider: 'openai' }),
};
