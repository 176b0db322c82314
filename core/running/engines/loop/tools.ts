import type { CustomTool } from '#core/agents/definition.ts';
import { callsDependency } from '#core/agents/manifest/orchestration.ts';
import { validateAgainst } from '#core/agents/manifest/schema-validation.ts';
import { fillCommand } from '#core/agents/manifest/tool-command.ts';
import { hasCode, PlatformError } from '#core/base/errors.ts';
import type { Json } from '#core/base/json.ts';
import { KEY_SECRETS } from '#core/models/providers.ts';
import type { Deps } from '#core/ports/deps.ts';
import type { LlmTool, LlmToolCall } from '#core/ports/llm.ts';
import { type ExecOutcome, execToEnd, type SandboxSession } from '#core/ports/sandbox.ts';
import { shortenTo } from '#core/runs/masking.ts';
import type { EngineRun } from '../engine.ts';
import { openRunSandbox } from '../run-sandbox.ts';

/** `contract.md` 11.3. */
export const COMMAND_SECONDS = 120;
/** Of one result, as the model gets it. */
export const MAX_RESULT_BYTES = 30 * 1024;
/** Where commands find the parameters of a custom tool; the variable names the file for those that read it elsewhere. */
const TOOL_INPUT = '/tmp/__tool_input.json';
const TOOL_INPUT_VARIABLE = 'PLATFORM_TOOL_INPUT';
const HOME = '/home/user';
/** Of a file: more than enough to see that it is no text. */
const SNIFFED_BYTES = 8192;

export const SUBMIT = 'submit_result';
/** A result that begins so is an error to the model (`contract.md` 11.3). */
const ERROR = '[ERROR]';

export interface ToolOutcome {
  readonly text: string;
  readonly isError: boolean;
}

const done = (text: string): ToolOutcome => ({ text, isError: text.startsWith(ERROR) });
const failed = (message: string): ToolOutcome => done(`${ERROR} ${message}`);

type Parameters = { readonly [name: string]: Json };

const text = (description: string) => ({ type: 'string', description });

/** All but `submit_result`, whose parameters are the agent's own. */
const BUILT_IN_TOOLS: readonly LlmTool[] = [
  {
    name: 'bash',
    description: `Runs a command with bash in the sandbox and returns what it prints. Commands end after ${COMMAND_SECONDS} seconds; each starts in ${HOME}, in a shell of its own.`,
    inputSchema: { type: 'object', properties: { command: text('The command line.') }, required: ['command'] },
  },
  {
    name: 'read_file',
    description: `Returns the text of a file in the sandbox; of a file over ${MAX_RESULT_BYTES / 1024} KB, its beginning.`,
    inputSchema: {
      type: 'object',
      properties: { path: text(`Absolute, or relative to ${HOME}.`) },
      required: ['path'],
    },
  },
  {
    name: 'write_file',
    description: 'Writes a text file in the sandbox, in place of one that is there. Missing folders are made.',
    inputSchema: {
      type: 'object',
      properties: { path: text(`Absolute, or relative to ${HOME}.`), content: text('The whole text.') },
      required: ['path', 'content'],
    },
  },
  {
    name: 'list_files',
    description: 'Lists a folder in the sandbox; names of folders end in "/".',
    inputSchema: {
      type: 'object',
      properties: {
        path: { ...text(`Absolute, or relative to ${HOME}.`), default: '.' },
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

const customTool = ({ name, description, input_schema }: CustomTool): LlmTool => ({
  name,
  description,
  inputSchema: input_schema === undefined ? NO_PARAMETERS : { ...input_schema, type: 'object' },
});

/**
 * The tools of one run (`contract.md` 11.3). All but `submit_result` work in one sandbox, which is opened at once, so that
 * it is there when the model has its first answer; nobody waits for it before a tool needs it.
 */
export class LoopTools {
  /** Without `submit_result`. */
  readonly definitions: readonly LlmTool[];
  readonly #run: EngineRun;
  readonly #signal: AbortSignal;
  readonly #session: Promise<SandboxSession>;
  readonly #custom: ReadonlyMap<string, CustomTool>;
  /** The last command that uses the file {@link TOOL_INPUT}: the next one waits for it. */
  #lastShared: Promise<unknown> = Promise.resolve();
  #inputs = 0;
  #calledDependency = false;

  constructor(deps: Pick<Deps, 'sandbox' | 'config' | 'clock'>, run: EngineRun, signal: AbortSignal) {
    const { custom_tools: own } = run.agent.definition;
    this.#run = run;
    this.#signal = signal;
    this.#custom = new Map(own.map((tool) => [tool.name, tool]));
    const builtIn = BUILT_IN_TOOLS.filter(({ name }) => name !== 'bash' || !run.isStrict);
    this.definitions = [...builtIn, ...own.map(customTool)];
    this.#session = open(deps, run);
    this.#session.catch(() => {});
  }

  /** Names of the custom tools of which one must succeed before a result is accepted; none once one did. */
  get owed(): string[] {
    const { manifest, custom_tools } = this.#run.agent.definition;
    const isOwed = this.#run.isStrict && !this.#calledDependency && (manifest?.dependencies.length ?? 0) > 0;
    return isOwed ? custom_tools.filter(({ command }) => callsDependency(command)).map(({ name }) => name) : [];
  }

  /**
   * What the model gets for a call of any tool but `submit_result`. Throws only what ends the run: SANDBOX_ERROR when
   * there is no sandbox or its memory is used up, INTERNAL_ERROR when it is lost.
   */
  async call({ name, input }: LlmToolCall): Promise<ToolOutcome> {
    const tool = this.definitions.find((definition) => definition.name === name);
    if (tool === undefined) {
      if (name === 'bash') {
        return failed('STRICT_MODE_BASH_DISABLED: this agent runs in strict mode, in which there is no bash.');
      }
      return failed(`There is no tool "${name}". The tools are ${this.#names()}.`);
    }
    const problem = parameterProblem(tool, input);
    if (problem !== undefined) return failed(problem);
    const parameters = input as Parameters;
    const own = this.#custom.get(name);
    if (own !== undefined) return this.#callCustom(own, parameters);
    const session = await this.#session;
    try {
      switch (name) {
        case 'bash':
          return this.#outcome(await this.#exec(session, parameters.command as string));
        case 'read_file':
          return done(await readText(session, parameters.path as string));
        case 'write_file':
          return done(await writeText(session, parameters.path as string, parameters.content as string));
        default:
          return done(await listing(session, (parameters.path as string) ?? '.', parameters.recursive === true));
      }
    } catch (error) {
      if (hasCode(error, 'SANDBOX_FILE')) return failed((error as Error).message);
      throw error;
    }
  }

  /** Ends the sandbox, with whatever still runs in it. */
  async close(): Promise<void> {
    const session = await this.#session.catch(() => undefined);
    await session?.close();
  }

  #names(): string {
    return [...this.definitions.map(({ name }) => name), SUBMIT].join(', ');
  }

  async #callCustom(tool: CustomTool, parameters: Parameters): Promise<ToolOutcome> {
    const filled = fillCommand(tool.command, parameters);
    if ('problem' in filled) return failed(filled.problem);
    const session = await this.#session;
    // A command that names the file must find its own parameters in it, whatever else runs: those take turns.
    const isShared = tool.command.includes('__tool_input');
    const file = isShared ? TOOL_INPUT : `$TMPDIR/__tool_input.${++this.#inputs}.json`;
    // Bash reads it itself: starting a program for that would cost as much as many a tool.
    const save = `export ${TOOL_INPUT_VARIABLE}="${file}"; printf %s "$(< /dev/stdin)" > "${file}" || exit; exec < /dev/null`;
    const command = `${save}\n${filled.command}`;
    const start = () => this.#exec(session, command, Buffer.from(JSON.stringify(parameters)));
    const running = isShared ? this.#lastShared.then(start) : start();
    if (isShared) this.#lastShared = running.catch(() => {});
    const ran = await running;
    const { reason, exitCode } = ran.exit;
    if (reason === 'exited' && exitCode === 0 && callsDependency(tool.command)) this.#calledDependency = true;
    return this.#outcome(ran);
  }

  #exec(session: SandboxSession, command: string, stdin?: Uint8Array): Promise<ExecOutcome> {
    const timeoutMs = COMMAND_SECONDS * 1000;
    return execToEnd(session, { command, cwd: HOME, stdin, timeoutMs, signal: this.#signal });
  }

  #outcome({ stdout, stderr, exit }: ExecOutcome): ToolOutcome {
    const [out, err] = [readable(stdout), readable(stderr)];
    const printed = [out, err === '' ? '' : `STDERR:\n${err}`].filter((part) => part !== '');
    switch (exit.reason) {
      case 'exited':
        break;
      case 'timeout':
        printed.unshift(`${ERROR} The command ran for more than ${COMMAND_SECONDS} seconds and was stopped.`);
        break;
      case 'aborted':
        printed.unshift(`${ERROR} The command was stopped, because the run ended.`);
        break;
      case 'output_limit':
        printed.unshift(`${ERROR} The command printed more than 10 MB and was stopped.`);
        break;
      case 'memory_limit':
        throw new PlatformError('SANDBOX_ERROR', "The agent's tools used up their memory and were stopped.", {
          category: 'code_error',
        });
      case 'sandbox_lost':
        throw new PlatformError('INTERNAL_ERROR', 'the sandbox was lost');
    }
    if (exit.reason === 'exited' && exit.exitCode !== 0) printed.push(`[exit code: ${exit.exitCode}]`);
    return done(printed.length === 0 ? '(no output)' : shortenTo(MAX_RESULT_BYTES, printed.join('\n')));
  }
}

/** `undefined` when the parameters are such as the tool takes. */
export function parameterProblem({ name, inputSchema }: LlmTool, input: Json | undefined): string | undefined {
  if (input === undefined) return `The parameters of ${name} were no JSON, or were cut off for their length.`;
  const problems = validateAgainst(inputSchema, input);
  if (problems.length === 0) return undefined;
  const list = problems.map(({ field, message }) => `${field === '' ? 'they' : field} ${message}`).join('; ');
  return `The parameters of ${name} are not as its schema says: ${list}.`;
}

async function open(deps: Pick<Deps, 'sandbox' | 'config' | 'clock'>, run: EngineRun): Promise<SandboxSession> {
  const session = await openRunSandbox(deps, run, environment(run));
  if ((run.agent.definition.manifest?.dependencies.length ?? 0) === 0) return session;
  // Commands of tools name the helpers there (contract.md 11.3).
  const command = 'ln -s /runtime/helpers "$HOME/helpers"';
  await execToEnd(session, { command, cwd: HOME, timeoutMs: COMMAND_SECONDS * 1000 });
  return session;
}

/**
 * What the tools find in their environment. The keys of the models that this loop uses are not there, not even when the
 * author declared them as secrets: only the platform speaks with these.
 */
function environment({ env, models }: EngineRun): Record<string, string> {
  const names: string[] = models.flatMap(({ provider }) => (provider === 'ollama' ? [] : [KEY_SECRETS[provider]]));
  const keys = models.map(({ apiKey }) => apiKey);
  const allowed = Object.entries(env).filter(([name, value]) => !names.includes(name) && !keys.includes(value));
  const { provider, model } = models[0]!;
  return { ...Object.fromEntries(allowed), LLM_PROVIDER: provider, LLM_MODEL: model };
}

/** NUL characters are refused by providers, and mean nothing to a model. */
const readable = (bytes: Uint8Array): string => Buffer.from(bytes).toString().replaceAll('\0', '\uFFFD').trimEnd();

/** Files of any size, and such as never end: no more is read than is shown. */
async function readText(session: SandboxSession, path: string): Promise<string> {
  const chunks: Uint8Array[] = [];
  let size = 0;
  for await (const chunk of await session.readFile(path)) {
    chunks.push(chunk);
    size += chunk.byteLength;
    if (size > MAX_RESULT_BYTES) break;
  }
  const bytes = Buffer.concat(chunks);
  if (bytes.subarray(0, SNIFFED_BYTES).includes(0)) return `${ERROR} ${path} is not a text file.`;
  if (size === 0) return '(empty file)';
  if (size <= MAX_RESULT_BYTES) return bytes.toString();
  // A character may be cut in two.
  const beginning = new TextDecoder().decode(bytes.subarray(0, MAX_RESULT_BYTES), { stream: true });
  return `${beginning}\n[... the file goes on; these are its first ${MAX_RESULT_BYTES / 1024} KB ...]`;
}

async function writeText(session: SandboxSession, path: string, content: string): Promise<string> {
  const bytes = Buffer.from(content);
  await session.writeFile(path, bytes);
  return `Wrote ${bytes.byteLength} bytes to ${path}.`;
}

async function listing(session: SandboxSession, path: string, recursive: boolean): Promise<string> {
  const files = await session.listFiles(path, { recursive });
  const shown = files.filter((file) => !recursive || !file.path.split('/').some((name) => name.startsWith('.')));
  const lines = shown.map((file) => (file.isFolder ? `${file.path}/` : file.path));
  return lines.length === 0 ? '(empty folder)' : shortenTo(MAX_RESULT_BYTES, lines.join('\n'));
}
