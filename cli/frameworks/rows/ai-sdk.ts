import { TEXT_INPUT } from '../chat-input.ts';
import { preferNames, scriptEntries } from '../entries.ts';
import type { Entry, Framework, Project } from '../framework.ts';
import { nodeProgram } from '../node-program.ts';

/** Takes an agent (`new ToolLoopAgent`) as well as a function that returns what `generateText` or `streamText` does. */
const CODE = `const answer = typeof entry === 'function' ? await entry(given.input) : await entry.stream({ prompt: given.input });
if (answer?.textStream) for await (const text of answer.textStream) show(text);
// A result with a schema has an object, others a text.
const object = await Promise.resolve(answer?.object).catch(() => undefined);
const text = await answer?.text;
const result = { output: object ?? text ?? answer };
`;

const ASKS = /\b(?:generateText|streamText|generateObject|streamObject)\(/;

/** Returns exported functions that call a model. */
function functionsIn({ sources }: Project): Entry[] {
  const found = sources.filter(({ path, text }) => /\.[cm]?[jt]s$/.test(path) && ASKS.test(text));
  return found.flatMap(({ path, text }) =>
    text.split(/^(?=[A-Za-z_@])/m).flatMap((statement): Entry[] => {
      if (!ASKS.test(statement)) return [];
      const [, isDefault, named] =
        /^export\s+(default\s+)?(?:async\s+)?function\s*(\w*)/.exec(statement) ??
        /^export\s+()const\s+(\w+)\s*=\s*(?:async\s*)?(?:\([^)]*\)|\w+)\s*(?::[^=]+)?=>/.exec(statement) ??
        [];
      if (isDefault) return [{ file: path, name: 'default' }];
      return named ? [{ file: path, name: named }] : [];
    }),
  );
}

export const aiSdk: Framework = {
  name: 'ai-sdk',
  title: 'AI SDK',
  language: 'javascript',
  packages: ['ai'],
  example:
    'a module must export an agent or a function, such as `export const answer = (input) => streamText({ model, prompt: input })`.',
  entriesIn(project) {
    const made = /\bnew (?:ToolLoopAgent|Experimental_Agent|Agent)(?:<[^>]*>)?\(/;
    const agents = scriptEntries(project, made, /["']ai["']/);
    return preferNames(agents.length > 0 ? agents : functionsIn(project), 'agent', 'answer', 'main', 'default');
  },
  adapt: (project, entry) => nodeProgram(project, entry, { ...TEXT_INPUT, title: 'AI SDK', code: CODE }),
};
