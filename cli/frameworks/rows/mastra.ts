import { preferFiles, preferNames, scriptEntries } from '../entries.ts';
import type { Framework } from '../framework.ts';
import { nodeProgram } from '../node-program.ts';

const CODE = `const agents = Object.entries(entry.listAgents?.() ?? entry.getAgents?.() ?? {});
const workflows = Object.entries(entry.listWorkflows?.() ?? entry.getWorkflows?.() ?? {});

/** Finds what the input names, or the only one. */
function choose(kind, all, name) {
  const found = all.find(([key, value]) => name === key || name === value.id || name === value.name);
  if (found) return found[1];
  if (name === undefined && all.length === 1) return all[0][1];
  throw new Error(\`Name the \${kind} in the input: \${all.map(([key]) => key).join(', ')}.\`);
}

async function runWorkflow() {
  const run = await choose('workflow', workflows, given.workflow).createRun();
  const answer = await run.start({ inputData: given.inputData });
  if (answer.status !== 'success') throw answer.error ?? new Error(\`The workflow ended as \${answer.status}.\`);
  return answer.result;
}

async function askAgent() {
  const answer = await choose('agent', agents, given.agent).stream(given.input);
  for await (const text of answer.textStream) show(text);
  return (await answer.object) ?? (await answer.text);
}

const result = { output: given.inputData === undefined ? await askAgent() : await runWorkflow() };
`;

const inputSchema = {
  type: 'object',
  properties: {
    agent: { type: 'string', description: 'Which agent is asked; needed if there are several.' },
    input: { type: 'string', description: 'What the agent is asked.' },
    workflow: { type: 'string', description: 'Which workflow is run; needed if there are several.' },
    inputData: { description: 'Input of the workflow. With it a workflow is run, otherwise an agent is asked.' },
  },
  anyOf: [{ required: ['input'] }, { required: ['inputData'] }],
};

export const mastra: Framework = {
  name: 'mastra',
  title: 'Mastra',
  language: 'javascript',
  packages: ['@mastra/core', 'mastra'],
  uses: ['ai-sdk', 'hono'],
  example: 'a module must export it, such as `export const mastra = new Mastra({ agents })` in src/mastra/index.ts.',
  entriesIn: (project) =>
    preferFiles(
      preferNames(scriptEntries(project, /\bnew Mastra\(/, /["']@mastra\/core/), 'mastra'),
      'src/mastra/index.ts',
      'mastra/index.ts',
      'src/mastra/index.js',
    ),
  adapt(project, entry) {
    const keys = project.sources.flatMap(({ text }) => /\bagents:\s*\{\s*(\w+)/.exec(text)?.[1] ?? []);
    const input = { ...(keys[0] !== undefined && { agent: keys[0] }), input: 'Say hello in one sentence.' };
    return nodeProgram(project, entry, { title: 'Mastra', code: CODE, input, inputSchema, provider: 'openai' });
  },
};
