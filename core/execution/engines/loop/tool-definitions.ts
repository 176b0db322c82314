import type { Json } from '#core/base/json.ts';
import { memoizeWeak } from '#core/base/memoize-weak.ts';
import { MAX_DELAY_SECONDS, MAX_WAIT_SECONDS } from '#core/base/time-limits.ts';
import type { CustomTool, LoopTool, OuterTool } from '#core/manifest/definition.ts';
import type { LlmTool } from '#core/ports/llm.ts';
import type { EngineRun } from '../engine.ts';
import { COMMAND_SECONDS } from './tool-outcome.ts';
import { MAX_RESULT_BYTES } from './tool-output.ts';
import { HOME } from './tool-sandbox.ts';

const text = (description: string) => ({ type: 'string', description });
const path = text(`Absolute, or relative to ${HOME}.`);

/** Runs the agent again later. A loop has it only if its manifest names it. */
export const LATER: LlmTool & { readonly name: LoopTool } = {
  name: 'later',
  description:
    'Runs this agent again later, with the input that you give, and returns at once. That run does not see this conversation: put everything that it needs into its input.',
  inputSchema: {
    type: 'object',
    properties: {
      input: { type: 'object', description: 'The input of the later run.', default: {} },
      delay_seconds: { type: 'integer', minimum: 1, maximum: MAX_DELAY_SECONDS, description: 'Seconds from now.' },
      run_at: text('Instead of delay_seconds: a time with an offset, such as 2026-12-01T09:00:00+01:00.'),
    },
  },
};

/** Asks a person. A loop has it only if its manifest names it. */
export const ASK_HUMAN: LlmTool & { readonly name: LoopTool } = {
  name: 'ask_human',
  description:
    'Asks a person a question and returns the answer, which may take hours. Use it for what only a person knows or may decide; ask for everything at once.',
  inputSchema: {
    type: 'object',
    properties: {
      question: {
        type: 'string',
        minLength: 1,
        maxLength: 4000,
        description: 'The question, with all that is needed to answer it.',
      },
      options: {
        type: 'array',
        items: { type: 'string', minLength: 1, maxLength: 200 },
        minItems: 2,
        maxItems: 20,
        description: 'The answers to choose from. Default: a text.',
      },
      schema: { type: 'object', description: 'Instead of options: a JSON Schema of the answer.' },
    },
    required: ['question'],
  },
};

/** Name of an event. */
const event = (description: string) => ({ type: 'string', pattern: '^[a-z0-9][a-z0-9_-]{0,63}$', description });

/** Waits. A loop has it only if its manifest names it. */
export const WAIT: LlmTool & { readonly name: LoopTool } = {
  name: 'wait',
  description:
    'Waits and returns when the time has come, or returns what an event brought. Waiting costs nothing, so do not check again and again.',
  inputSchema: {
    type: 'object',
    properties: {
      seconds: { type: 'integer', minimum: 1, maximum: MAX_WAIT_SECONDS, description: 'Seconds from now.' },
      until: text('Instead of seconds: a time with an offset, such as 2026-12-01T09:00:00+01:00.'),
      event: event(
        'Waits until this event happens; seconds or until then say for how long at most. It needs an address from event_url.',
      ),
    },
  },
};

/** Makes the address of an event. A loop has it only if its manifest names it. */
export const EVENT_URL: LlmTool & { readonly name: LoopTool } = {
  name: 'event_url',
  description:
    'Returns an address for an event. Give it to whoever will know that the event has happened: they send a POST request, with what happened as JSON. Then wait for the event with the tool wait.',
  inputSchema: {
    type: 'object',
    properties: {
      event: event('A name that you choose, such as paid or signed-2. An event happens once: give each its own name.'),
    },
    required: ['event'],
  },
};

const documentName = text('Its name, such as customers/acme.md: letters, digits and . _ - in parts that slashes join.');
/** Which part of a text to return. */
const place = {
  offset: { type: 'integer', minimum: 1, description: 'The first line to return, from 1.', default: 1 },
  limit: { type: 'integer', minimum: 1, description: 'The number of lines to return. Default: all that fit.' },
  column: { type: 'integer', minimum: 1, description: 'In a long line, the first character to return, from 1.' },
};

export type MemoryTool = Extract<OuterTool, `memory_${string}`>;

/** Texts that outlive the run. A loop has these tools only if its manifest names them. */
export const MEMORY_TOOLS: readonly (LlmTool & { readonly name: MemoryTool })[] = [
  {
    name: 'memory_list',
    description: 'Lists the documents of the memory, which you and other runs wrote for later runs.',
    inputSchema: {
      type: 'object',
      properties: {
        prefix: { ...text('Only names that begin with this, such as customers/.'), maxLength: 200 },
        after: { ...text('Only names after this one, in their order.'), maxLength: 200 },
      },
    },
  },
  {
    name: 'memory_read',
    description: `Returns a document of the memory, at most ${MAX_RESULT_BYTES / 1024} KB of it: of a longer one, it says where to go on.`,
    inputSchema: { type: 'object', properties: { name: documentName, ...place }, required: ['name'] },
  },
  {
    name: 'memory_write',
    description:
      'Writes a document of the memory, as Markdown of at most 64 KB. To change one that exists, read it first and give its version: if another run has written it since, nothing is written, and you are told.',
    inputSchema: {
      type: 'object',
      properties: {
        name: documentName,
        content: text('The whole text.'),
        if_version: {
          type: 'integer',
          minimum: 0,
          description: 'The version that you read; 0 for a new document.',
          default: 0,
        },
      },
      required: ['name', 'content'],
    },
  },
  {
    name: 'memory_delete',
    description: 'Deletes a document of the memory, if it still has the version that you read.',
    inputSchema: {
      type: 'object',
      properties: {
        name: documentName,
        if_version: { type: 'integer', minimum: 1, description: 'The version that you read.' },
      },
      required: ['name', 'if_version'],
    },
  },
];

export type WebTool = Extract<OuterTool, `web_${string}`>;

/** The web, by the platform's own requests. A loop has these tools only if its manifest names them. */
export const WEB_TOOLS: readonly (LlmTool & { readonly name: WebTool })[] = [
  {
    name: 'web_search',
    description: 'Searches the web, and returns titles, addresses and extracts. Read a page with web_fetch.',
    inputSchema: {
      type: 'object',
      properties: {
        query: { type: 'string', minLength: 1, maxLength: 400, description: 'What to search for.' },
        count: { type: 'integer', minimum: 1, maximum: 10, description: 'Number of results.', default: 5 },
      },
      required: ['query'],
    },
  },
  {
    name: 'web_fetch',
    description: `Returns the text of a page of the web as Markdown, at most ${MAX_RESULT_BYTES / 1024} KB of it: of a longer one, it says where to go on. It reads HTML, text and JSON, and runs no scripts.`,
    inputSchema: {
      type: 'object',
      properties: {
        url: { type: 'string', minLength: 1, maxLength: 2048, description: 'Address, which begins with https://.' },
        ...place,
      },
      required: ['url'],
    },
  },
];

/** The platform's tools in the sandbox. */
export const BUILT_IN_TOOLS: readonly (LlmTool & { readonly name: LoopTool })[] = [
  {
    name: 'bash',
    description: `Runs a command with bash in the sandbox and returns what it prints. Commands end after ${COMMAND_SECONDS} seconds; each starts in ${HOME}, in a shell of its own.`,
    inputSchema: { type: 'object', properties: { command: text('The command line.') }, required: ['command'] },
  },
  {
    name: 'read_file',
    description: `Returns the text of a file in the sandbox, at most ${MAX_RESULT_BYTES / 1024} KB of it: of a longer one, it says where to go on. An image or a PDF is shown to you, if you can look at such files.`,
    inputSchema: {
      type: 'object',
      properties: {
        path,
        ...place,
      },
      required: ['path'],
    },
  },
  {
    name: 'write_file',
    description: 'Writes a text file in the sandbox, in place of one that is there. Missing folders are made.',
    inputSchema: {
      type: 'object',
      properties: { path, content: text('The whole text.') },
      required: ['path', 'content'],
    },
  },
  {
    name: 'list_files',
    description: 'Lists a folder in the sandbox; names of folders end in "/".',
    inputSchema: {
      type: 'object',
      properties: {
        path: { ...path, default: '.' },
        recursive: {
          type: 'boolean',
          description: 'Also what is in its folders, without names that begin with a dot.',
          default: false,
        },
      },
    },
  },
];

const NO_PARAMETERS = { type: 'object', properties: {} };

/** Definition of an author's tool for the model. */
export const customToolDefinition = memoizeWeak(
  ({ name, description, input_schema }: CustomTool): LlmTool => ({
    name,
    description,
    inputSchema: input_schema === undefined ? NO_PARAMETERS : { ...input_schema, type: 'object' },
  }),
);

/** Returns why the tool rejects these parameters; `undefined` if it accepts them. */
export async function parameterProblem(
  { validate }: Pick<EngineRun, 'validate'>,
  { name, inputSchema }: LlmTool,
  input: Json | undefined,
): Promise<string | undefined> {
  if (input === undefined) {
    return `The parameters of ${name} were no JSON, were cut off for their length, or were nested too deeply. Send one JSON object; if it was long, write in smaller pieces, over several calls.`;
  }
  const problems = await validate(inputSchema, input);
  if (problems.length === 0) return undefined;
  const list = problems.map(({ field, message }) => `${field === '' ? 'they' : field} ${message}`).join('; ');
  return `The parameters of ${name} are not as its schema says: ${list}. Call it again with these corrected.`;
}
